#pragma once

#include <filesystem>
#include <string>

#include "argosy/observe/append_file.h"
#include "argosy/observe/sink.h"

namespace argosy::observe {

// Points and reports as JSON, an object a line, appended to what is there. A
// line is in the file when the call returns. Numbers that JSON does not have
// are the texts "nan", "inf" and "-inf".
class JsonLines : public Sink {
 public:
  // Every line carries `rank`. Throws SystemError.
  JsonLines(const std::filesystem::path& path, int rank);

  bool wants(Interest interest) const override {
    return interest != Interest::Stretches;
  }
  void on_point(const Point& point) override;
  void on_report(const Report& report) override;

 private:
  AppendFile file_;
  const int rank_;
};

// One line without its end.
std::string json_line(const Point& point, int rank);
std::string json_line(const Report& report, double time, int rank);

} // namespace argosy::observe
