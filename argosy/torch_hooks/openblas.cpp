#include "argosy/torch_hooks/openblas.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "argosy/torch_hooks/hook.h"

namespace argosy::torch_hooks {

namespace {

// Null when no library of the process has such a function.
template <typename F>
F* find_function(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_DEFAULT, name));
}

bool choose_kernels() {
  const std::string core(better_openblas_core(
      openblas_core(), simd::highest_isa(), Environment::of_process()));
  auto* const quit = find_function<void()>("gotoblas_dynamic_quit");
  auto* const init = find_function<void()>("gotoblas_dynamic_init");
  if (core.empty() || quit == nullptr || init == nullptr) {
    return false;
  }
  // OpenBLAS reads the variable when it initializes, which it does as the
  // library is loaded: it has to begin anew.
  ::setenv("OPENBLAS_CORETYPE", core.c_str(), 1);
  quit();
  init();
  return true;
}

} // namespace

std::string_view better_openblas_core(
    std::string_view core, simd::Isa highest, const Environment& environment) {
  // Prescott is what OpenBLAS falls back to for models that it does not know;
  // without AVX2 it may be right. The choice of the user goes first.
  if (core != "Prescott" || highest == simd::Isa::Baseline ||
      environment.has("OPENBLAS_CORETYPE")) {
    return "";
  }
  return highest == simd::Isa::Avx512 ? "SkylakeX" : "Haswell";
}

std::string_view openblas_core() {
  auto* const name = find_function<const char*()>("openblas_get_corename");
  return name == nullptr ? "" : name();
}

void install_openblas_core() {
  install(Hook::kOpenblas, choose_kernels);
}

} // namespace argosy::torch_hooks
