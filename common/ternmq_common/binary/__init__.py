"""What the binary formats of files and frames have in common: numbers and checksums."""
