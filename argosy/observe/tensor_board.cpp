#include "argosy/observe/tensor_board.h"

#include <unistd.h>

#include <algorithm>
#include <string>

#include "argosy/common/error.h"
#include "argosy/common/net.h"
#include "argosy/observe/clock.h"
#include "argosy/observe/event_record.h"
#include "argosy/observe/report.h"

namespace argosy::observe {

namespace {

// Ten digits of seconds, so that names sort by age. The last number
// distinguishes files created by one process within a second.
std::filesystem::path new_file_in(const std::filesystem::path& folder) {
  const std::string seconds =
      std::to_string(static_cast<long long>(unix_seconds()));
  for (int number = 0;; ++number) {
    auto path = folder /
        str("events.out.tfevents.",
            std::string(10 - std::min<std::size_t>(10, seconds.size()), '0'),
            seconds,
            ".",
            host_name(),
            ".",
            ::getpid(),
            ".",
            number);
    if (!std::filesystem::exists(path)) {
      return path;
    }
  }
}

std::string scalar_record(
    double time, std::int64_t step, std::string_view tag, double value) {
  return framed(scalar_event(time, step, tag, static_cast<float>(value)));
}

} // namespace

TensorBoard::TensorBoard(const std::filesystem::path& folder)
    : file_(new_file_in(folder)) {
  // TensorBoard expects the version as the first record.
  file_.append(framed(version_event(unix_seconds())));
}

void TensorBoard::on_point(const Point& point) {
  file_.append(scalar_record(point.time, point.step, point.name, point.value));
}

void TensorBoard::on_report(const Report& report) {
  if (report.step == last_step_) {
    return; // the final report repeats the previous numbers
  }
  last_step_ = report.step;
  const double time = unix_seconds();
  std::string records;
  for (const auto& [name, value] : scalars(report)) {
    records += scalar_record(time, report.step, name, value);
  }
  file_.append(records);
}

} // namespace argosy::observe
