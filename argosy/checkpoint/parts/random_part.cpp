// Random numbers: torch's default generator, the streams of tensor parallelism,
// and DTensor's.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <mutex>

#include "argosy/checkpoint/hash.h"
#include "argosy/checkpoint/parts/parts.h"
#include "argosy/common/error.h"
#include "argosy/dtensor/tensor/mesh_state.h"
#include "argosy/tensor_parallel/rng.h"
#include "argosy/world/world.h"

namespace argosy::checkpoint {

namespace {

using nlohmann::json;

std::string text_of(const at::Tensor& bytes) {
  const at::Tensor dense = bytes.contiguous();
  return {
      static_cast<const char*>(dense.data_ptr()),
      static_cast<std::size_t>(dense.numel())};
}

at::Tensor tensor_of(const std::string& text) {
  at::Tensor bytes =
      at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
  std::memcpy(bytes.data_ptr(), text.data(), text.size());
  return bytes;
}

std::string default_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return text_of(generator.get_state());
}

void set_default_state(const std::string& text) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(tensor_of(text));
}

// A rank that the checkpoint does not know draws numbers that depend on what
// the first rank's are, and that no other rank draws.
void set_new_state(const std::string& text_of_first, int rank) {
  const Hash128 hash = hash_bytes(
      std::as_bytes(std::span(text_of_first.data(), text_of_first.size())));
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(hash.low + static_cast<std::uint64_t>(rank));
}

std::string of_rank(int rank, const std::string& name) {
  return str("rank/", rank, "/random/", name);
}

class RandomPart final : public StatePart {
 public:
  void save(Contents& contents) override {
    contents.bytes_of_rank("random/torch", default_state());
    if (current_world() == nullptr) {
      return;
    }
    for (const auto& [name, state] : rng_states_tracker()->get_states()) {
      contents.bytes_of_rank("random/stream/" + name, text_of(state));
    }
    const auto next = dtensor::random_state()->next();
    contents.value(
        "random/dtensor", {{"seed", next.seed}, {"stream", next.stream}});
  }

  void load(Request& request) override {
    load_default(request);
    if (current_world() == nullptr) {
      return;
    }
    load_streams(request);
    if (request.manifest().values.contains("random/dtensor")) {
      const json& next = *request.value("random/dtensor");
      const dtensor::RandomState::Draw draw{
          next.at("seed").get<std::uint64_t>(),
          next.at("stream").get<std::uint64_t>()};
      request.after([draw] { dtensor::random_state()->continue_at(draw); });
    }
  }

 private:
  static void load_default(Request& request) {
    const std::string own = of_rank(request.rank(), "torch");
    if (request.find(own) != nullptr) {
      request.bytes(own, set_default_state);
    } else {
      request.bytes(
          of_rank(0, "torch"), [rank = request.rank()](const auto& text) {
            set_new_state(text, rank);
          });
    }
  }

  // Streams that are alike on all ranks have the first rank's state; others
  // continue only on the ranks that the checkpoint knows.
  static void load_streams(Request& request) {
    for (const auto& [name, state] : rng_states_tracker()->get_states()) {
      std::string from = of_rank(request.rank(), "stream/" + name);
      if (request.find(from) == nullptr && name == kGlobalRng) {
        from = of_rank(0, "stream/" + name);
      }
      if (request.find(from) != nullptr) {
        request.bytes(from, [name = name](const std::string& text) {
          rng_states_tracker()->set_states({{name, tensor_of(text)}});
        });
      }
    }
  }
};

} // namespace

std::unique_ptr<StatePart> random_part() {
  return std::make_unique<RandomPart>();
}

} // namespace argosy::checkpoint
