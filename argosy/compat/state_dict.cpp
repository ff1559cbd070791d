#include "argosy/compat/state_dict.h"

#include <ATen/core/Tensor.h>

#include <memory>

#include "argosy/checkpoint/checkpointer.h"
#include "argosy/checkpoint/state_part.h"
#include "argosy/comm/objects.h"
#include "argosy/common/log.h"
#include "argosy/common/text.h"
#include "argosy/training/held_part.h"
#include "argosy/world/world.h"

namespace argosy {

namespace {

// Tensors under their own names.
class StateDictPart : public checkpoint::StatePart {
 public:
  explicit StateDictPart(const StateDict& tensors) : tensors_(tensors) {}

  void save(checkpoint::Contents& contents) override {
    for (const auto& [name, tensor] : tensors_) {
      contents.tensor(name, training::held_part(tensor));
    }
  }

  void load(checkpoint::Request& request) override {
    for (const auto& [name, tensor] : tensors_) {
      request.tensor(name, training::held_part(tensor));
    }
  }

 private:
  const StateDict& tensors_;
};

checkpoint::State state_of(const StateDict& tensors) {
  checkpoint::State state;
  state.without_random();
  state.add("state_dict", std::make_unique<StateDictPart>(tensors));
  return state;
}

// The number after the newest, as the first rank sees it.
std::int64_t next_id(const std::string& path, const StateDictOptions& options) {
  const auto newest =
      checkpoint::Folder(fs::open(path))
          .newest(Deadline::after(checkpoint::CheckpointOptions().timeout));
  std::vector<std::int64_t> id{newest ? newest->step + 1 : 0};
  if (current_world() != nullptr) {
    const int first =
        options.process_group ? options.process_group->ranks().front() : 0;
    broadcast_object_list(id, first, options.process_group);
  }
  return id[0];
}

} // namespace

std::int64_t save_state_dict(
    const StateDict& state_dict,
    const std::string& path,
    const StateDictOptions& options) {
  const std::int64_t id =
      options.unique_id ? *options.unique_id : next_id(path, options);
  checkpoint::State state = state_of(state_dict);
  checkpoint::save(path, state, id, {.group = options.process_group});
  return id;
}

std::vector<std::string> load_state_dict(
    StateDict& state_dict,
    const std::string& path,
    const StateDictOptions& options) {
  checkpoint::State state = state_of(state_dict);
  const auto report = checkpoint::load(
      path,
      state,
      {.step = options.unique_id,
       .strict = false,
       .group = options.process_group});
  if (!report.missing.empty()) {
    log::warn(
        "[load_state_dict] {} does not have {}",
        report.url,
        join(report.missing, ", "));
  }
  return report.missing;
}

} // namespace argosy
