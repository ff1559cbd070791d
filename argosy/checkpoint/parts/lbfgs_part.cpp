// LBFGS of torch: its state is of all parameters together, so it is saved as
// torch writes it.

#include <torch/optim/lbfgs.h>
#include <torch/serialize.h>

#include <sstream>
#include <utility>

#include "argosy/checkpoint/parts/parts.h"
#include "argosy/common/error.h"
#include "argosy/optim/parameter_groups.h"
#include "argosy/training/held_part.h"

namespace argosy::checkpoint {

namespace {

class LbfgsPart final : public StatePart {
 public:
  LbfgsPart(std::string name, torch::optim::LBFGS& optimizer, NamesOf names)
      : name_(std::move(name)),
        optimizer_(optimizer),
        names_(std::move(names)) {}

  void save(Contents& contents) override {
    check_parameters("save");
    for (auto& each : optimizer_.state()) {
      // Scratch memory of a step, which torch cannot write: it has tensors that
      // are not defined.
      static_cast<torch::optim::LBFGSParamState&>(*each.second)
          .al(c10::nullopt);
    }
    torch::serialize::OutputArchive archive;
    optimizer_.save(archive);
    std::ostringstream out;
    archive.save_to(out);
    contents.bytes(name_ + "/lbfgs", out.str());
  }

  void load(Request& request) override {
    check_parameters("load");
    request.bytes(name_ + "/lbfgs", [this](const std::string& bytes) {
      std::istringstream in(bytes);
      torch::serialize::InputArchive archive;
      archive.load_from(in);
      optimizer_.load(archive);
    });
  }

 private:
  // The curvature that it remembers is of all its parameters, whole.
  void check_parameters(const char* op) const {
    for (const at::Tensor& parameter : optim::params_of(optimizer_)) {
      const std::string known = name_of(parameter, names_(), op);
      const training::HeldPart part = training::held_part(parameter);
      ARGOSY_CHECK(
          part.box.size == part.whole && !part.range,
          "[checkpoint.{}] {} is LBFGS, and has a part of {}, expected whole "
          "parameters",
          op,
          name_,
          known);
    }
  }

  const std::string name_;
  torch::optim::LBFGS& optimizer_;
  const NamesOf names_;
};

} // namespace

std::unique_ptr<StatePart> lbfgs_part(
    std::string name, torch::optim::LBFGS& optimizer, NamesOf names) {
  return std::make_unique<LbfgsPart>(
      std::move(name), optimizer, std::move(names));
}

} // namespace argosy::checkpoint
