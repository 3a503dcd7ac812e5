#pragma once
#include <loom/prelude.h>
