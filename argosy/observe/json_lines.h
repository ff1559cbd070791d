#pragma once

#include <filesystem>
#include <string>

#include "argosy/observe/append_file.h"
#include "argosy/observe/sink.h"

namespace argosy::observe {

// Appends points and reports to a file as JSON, one object per line. A line is
// in the file when the call returns. NaN and infinities are written as the
// strings "nan", "inf" and "-inf".
class JsonLines : public Sink {
 public:
  // Every line carries `rank`. Throws SystemError.
  JsonLines(const std::filesystem::path& path, int rank);

  bool wants(Interest interest) const override {
    return interest != Interest::Spans;
  }
  void on_point(const Point& point) override;
  void on_report(const Report& report) override;

 private:
  AppendFile file_;
  const int rank_;
};

// Return one line, without the line break.
std::string json_line(const Point& point, int rank);
std::string json_line(const Report& report, double time, int rank);

} // namespace argosy::observe
