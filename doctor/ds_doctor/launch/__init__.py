"""What may be given to be launched: commands, containers, files, services; words and text in, typed structs out, no I/O."""
