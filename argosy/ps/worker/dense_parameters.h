#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "argosy/ps/client/client.h"
#include "argosy/ps/client/communicator.h"
#include "argosy/ps/worker/session.h"

namespace argosy::ps {

// A worker's copies of the parameters in a dense table. One thread at a time.
class DenseParameters {
 public:
  // Both must outlive it.
  DenseParameters(
      Client& client,
      Communicator& communicator,
      DensePulls pulls,
      std::uint32_t table);

  std::uint32_t table() const { return table_; }

  // Once; see Session::add_dense().
  void add(std::vector<at::Tensor> parameters, DenseConfig config);
  bool empty() const { return parameters_.empty(); }

  void pull();

  // Adds their gradients to a batch's, if there are any.
  void add_gradients(Gradients& gradients) const;
  // Takes new values as the DensePulls say. The batch was pushed.
  void receive();
  void zero_gradients();

  // Geo: sends differences, and takes those of others.
  void exchange();

 private:
  std::vector<float> values(bool gradients) const;
  void set_values(std::span<const float> values);
  void finish_pull();

  Client& client_;
  Communicator& communicator_;
  const DensePulls pulls_;
  const std::uint32_t table_;
  std::vector<at::Tensor> parameters_;
  std::size_t size_ = 0;
  std::vector<float> old_; // geo: what the servers have, as we think
  int age_ = 0;            // steps since the last pull
  std::vector<float> coming_;
  PendingPull pending_; // into coming_
};

} // namespace argosy::ps
