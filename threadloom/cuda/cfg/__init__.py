"""Level `cfg`: basic blocks of the LLVM subset that clang hands us; a stage on the way to `par`."""
