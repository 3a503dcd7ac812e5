"""`loom check`: what a CUDA program does wrong, by the interpreter and by compiled code with shadow memory."""
