#pragma once

// Differences between the LibTorch versions that Argosy supports (1.13 and
// 2.x).

#include <torch/version.h>

#define ARGOSY_TORCH_VERSION (TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR)

// c10d::ProcessGroup became a dispatcher over c10d::Backend in 2.0.
#define ARGOSY_C10D_HAS_BACKEND (ARGOSY_TORCH_VERSION >= 200)
