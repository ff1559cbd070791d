#pragma once

#include <string>

namespace argosy::launch {

// The folder of one run, made by make_run_dir(). Removed by the destructor
// unless it is to be kept: without logs it holds only error files that nobody
// needs after a success.
class RunDir {
 public:
  RunDir(const std::string& log_dir, const std::string& run_id, bool keep);
  ~RunDir();
  RunDir(const RunDir&) = delete;
  RunDir& operator=(const RunDir&) = delete;

  const std::string& path() const { return path_; }
  void keep() { keep_ = true; }

 private:
  std::string path_;
  bool keep_;
};

} // namespace argosy::launch
