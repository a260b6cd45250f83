"""What lists of checksums say: text in, names and digests out; reads no file, knows no host."""
