/* A libnvidia-ml.so.1 for tests. FAKE_NVML says how it behaves: a number is what nvmlInit answers, "hang" sleeps for
   ever, "crash" dies of SIGSEGV, "noise" prints to standard output first, "lost" loses GPU 1, "ok" is a small healthy
   host with two GPUs. What is not defined here is FUNCTION_NOT_FOUND. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { int index; } *device;
static struct { int index; } gpus[2] = {{0}, {1}};
static int is(const char *what) { const char *s = getenv("FAKE_NVML"); return s && !strcmp(s, what); }
static int lost(void *d) { return is("lost") && *(int *)d == 1; }

int nvmlInitWithFlags(unsigned flags) {
  const char *s = getenv("FAKE_NVML");
  if (is("hang")) for (;;) sleep(1000);
  if (is("crash")) raise(SIGSEGV);
  if (is("noise")) { printf("NVRM: hello\n"); fflush(stdout); }
  return s ? atoi(s) : 0;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
const char *nvmlErrorString(int code) { return code == 18 ? "Driver/library version mismatch \xff" : "Some error"; }
int nvmlSystemGetDriverVersion(char *s, unsigned n) { strncpy(s, "580.159.04", n); return 0; }
int nvmlSystemGetCudaDriverVersion(int *v) { *v = 13000; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = &gpus[i]; return i < 2 ? 0 : 2; }
int nvmlDeviceGetName(void *d, char *s, unsigned n) { strncpy(s, "NVIDIA H200", n); return lost(d) ? 15 : 0; }
int nvmlDeviceGetUUID(void *d, char *s, unsigned n) { snprintf(s, n, "GPU-%d", *(int *)d); return lost(d) ? 15 : 0; }
int nvmlDeviceGetVbiosVersion(void *d, char *s, unsigned n) { strncpy(s, "96.00.\xff", n); return 0; } /* not UTF-8 */
int nvmlDeviceGetMinorNumber(void *d, unsigned *n) { *n = *(int *)d; return 0; }
int nvmlDeviceGetCudaComputeCapability(void *d, int *a, int *b) { *a = 9; *b = 0; return 0; }
int nvmlDeviceGetPersistenceMode(void *d, unsigned *m) { *m = 1; return 0; }
int nvmlDeviceGetComputeMode(void *d, unsigned *m) { *m = 0; return 0; }
int nvmlDeviceGetEccMode(void *d, unsigned *a, unsigned *b) { *a = *b = 1; return 0; }
int nvmlDeviceGetTotalEccErrors(void *d, int kind, int counter, unsigned long long *n) { *n = 0; return kind == 1 && counter == 0 ? 0 : 2; }
int nvmlDeviceGetRemappedRows(void *d, unsigned *a, unsigned *b, unsigned *c, unsigned *e) { *a = *b = 0; *c = 1; *e = 0; return 0; }
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
int nvmlDeviceGetPciInfo_v3(void *d, struct pci *p) { memset(p, 0, sizeof *p); snprintf(p->bus_id, 32, "00000000:0%X:00.0", 10 + *(int *)d); return 0; }
struct memory { unsigned long long total, free, used; }; /* only the first version: an old driver */
int nvmlDeviceGetMemoryInfo(void *d, struct memory *m) { m->total = 143771ULL << 20; m->free = 143155ULL << 20; m->used = 616ULL << 20; return 0; }
int nvmlDeviceGetNvLinkState(void *d, unsigned link, unsigned *on) { *on = link != 2; return link < 4 ? 0 : 2; }
int nvmlDeviceGetNvLinkRemoteDeviceType(void *d, unsigned link, unsigned *t) { *t = link < 2 ? 0 : 2; return 0; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *d, unsigned link, struct pci *p) { int other = 1 - *(int *)d; return nvmlDeviceGetPciInfo_v3(&gpus[other], p); }
int nvmlDeviceGetP2PStatus(void *a, void *b, int index, int *status) { *status = index == 2 ? 5 : 0; return index < 4 ? 0 : 2; }
int nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, int *level) { *level = 30; return 0; }
struct process { unsigned pid; unsigned long long used; unsigned gi, ci; }; /* version 2 only */
int nvmlDeviceGetComputeRunningProcesses_v2(void *d, unsigned *n, struct process *p) {
  if (*(int *)d) { *n = 0; return 0; }
  if (!p) { *n = 1; return 7; }
  *n = 1; p[0].pid = 4711; p[0].used = 1000ULL << 20; return 0;
}
int nvmlSystemGetProcessName(unsigned pid, char *s, unsigned n) { strncpy(s, "/usr/bin/python3 --token=secret", n); return 0; }
