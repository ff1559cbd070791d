#pragma once

#include <filesystem>

#include "argosy/observe/append_file.h"
#include "argosy/observe/sink.h"

namespace argosy::observe {

// Writes points and report numbers as scalars to a TensorBoard event file, a
// new one in the run's folder. Data is in the file when the call returns.
class TensorBoard : public Sink {
 public:
  // Throws SystemError.
  explicit TensorBoard(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return file_.path(); }

  bool wants(Interest interest) const override {
    return interest != Interest::Spans;
  }
  void on_point(const Point& point) override;
  void on_report(const Report& report) override;

 private:
  AppendFile file_;
  std::int64_t last_step_ = -1; // last reported step
};

} // namespace argosy::observe
