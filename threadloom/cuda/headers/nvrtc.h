/* Run-time compilation from C++ is not there. */
#error "NVRTC is not supported on this CPU: compile the kernel with the program, or call it from Python by threadloom.cuda.compile"
