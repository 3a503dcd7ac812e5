/* Sharing buffers with OpenGL is not there: programs that include this and call nothing of it build. */
#pragma once
#include <loom/prelude.h>
