#pragma once

#include <memory>
#include <vector>

#include "argosy/pipeline/cut/cut.h"
#include "argosy/pipeline/cut/program.h"

namespace argosy::pipeline {

// Runs one part of a recorded program: on the module's inputs or what the
// previous part sent, and on the module's states; autograd records it as it
// would the module. Does not modify the tensors that it is given. Thread-safe.
class PartRunner {
 public:
  PartRunner(std::shared_ptr<const Program> program, Part part);

  // Takes what the part receives, in order, and returns what it sends. Of
  // values that are DTensors it takes and returns this rank's parts, but the
  // last part returns the DTensors. Releases values after their last use.
  // Throws InvalidArgument when shapes or dtypes
  // differ from the recording.
  Tensors run(Tensors given) const;

  const Part& part() const { return part_; }
  const Program& program() const { return *program_; }
  Metas received() const { return program_->metas_of(part_.receives); }
  Metas sent() const { return program_->metas_of(part_.sends); }

 private:
  struct Step {
    int node = 0;
    std::vector<int> released; // values that nobody needs after it
  };

  void plan_releases();
  void run_step(trace::Run& run, const Step& step) const;
  void check(const Tensors& given) const;
  at::Tensor whole(std::size_t index, const at::Tensor& given) const;
  at::Tensor accept(std::size_t index, const at::Tensor& given) const;
  at::Tensor to_send(std::size_t index, const at::Tensor& value) const;

  const std::shared_ptr<const Program> program_;
  const Part part_;
  std::vector<Step> steps_;
  std::vector<bool> is_written_;   // by what is received: in this part
  std::vector<bool> is_used_;      // by what is sent: in this part
  bool switches_autocast_ = false; // within
};

} // namespace argosy::pipeline
