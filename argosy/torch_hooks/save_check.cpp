#include "argosy/torch_hooks/save_check.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/export.h>

#include "argosy/torch_hooks/hook.h"

namespace argosy::torch_hooks {

namespace {

void run_check(SaveCheck check, const torch::jit::Module& archive) {
  for (const auto& item : archive.named_attributes(/*recurse=*/true)) {
    if (item.value.isTensor()) {
      check(item.name, item.value.toTensor());
    }
  }
}

} // namespace

void install_save_check(SaveCheck check) {
  install(Hook::kSave, [check] {
    // LibTorch asks for extra files before it writes the module: of all that
    // torch::save() does, this alone can be hooked.
    torch::jit::SetExportModuleExtraFilesHook(
        [check](const torch::jit::Module& archive) {
          run_check(check, archive);
          return torch::jit::ExtraFilesMap();
        });
    return true;
  });
}

} // namespace argosy::torch_hooks
