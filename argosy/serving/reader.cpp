#include "argosy/serving/reader.h"

#include <algorithm>

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/serving/switch_plan.h"

namespace argosy::serving {

namespace {

constexpr std::chrono::milliseconds kFirstPeriod{20};

// Throws CheckpointError.
std::vector<ExportName> listed(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<ExportName> names;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator();
       entry.increment(error)) {
    if (const auto name = parse_file_name(entry->path().filename().string())) {
      names.push_back(*name);
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw CheckpointError(
        str("[serving.list] ", folder.string(), ": ", error.message()));
  }
  return names;
}

// A version, and why it is not a newer one.
struct Followed {
  std::shared_ptr<const Snapshot> snapshot;
  std::string problem;
};

// Opens what is new, up to the first export that is missing or damaged. With a
// damaged base, those before it count.
Followed follow(
    const std::filesystem::path& folder,
    std::shared_ptr<const Snapshot> from,
    bool verify) {
  Followed at{std::move(from), ""};
  std::vector<ExportName> names = listed(folder);
  std::string first_problem;
  while (true) {
    const auto number =
        at.snapshot ? std::optional(at.snapshot->number()) : std::nullopt;
    const SwitchPlan plan = plan_switch(names, number);
    at.problem = plan.problem;
    std::optional<ExportName> damaged;
    for (const ExportName& name : plan.open) {
      try {
        auto file = std::make_shared<const ExportFile>(
            folder / file_name(name), verify);
        at.snapshot = name.is_base()
            ? std::make_shared<const Snapshot>(std::move(file))
            : at.snapshot->with(std::move(file));
      } catch (const CheckpointError& error) {
        at.problem = error.what();
        damaged = name;
        break;
      }
    }
    if (first_problem.empty()) {
      first_problem = at.problem;
    }
    if (!damaged || !damaged->is_base()) {
      break;
    }
    // Without this base, and what may be a delta of the same number.
    std::erase(names, *damaged);
  }
  at.problem = first_problem;
  return at;
}

} // namespace

Reader::Reader(std::filesystem::path folder, ReaderOptions options)
    : folder_(std::move(folder)), options_(options) {
  const Deadline deadline = Deadline::after(options_.timeout);
  while (!refresh()) {
    if (deadline.expired()) {
      throw TimeoutError(str_format(
          "[serving.reader] {}: no base after {}{}{}",
          folder_.string(),
          deadline.limit_text(),
          problem_.empty() ? "" : ": ",
          problem_));
    }
    std::this_thread::sleep_for(deadline.remaining(kFirstPeriod));
  }
  if (options_.period.count() > 0) {
    watcher_ = std::thread([this] { watch(); });
  }
}

Reader::~Reader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (watcher_.joinable()) {
    watcher_.join();
  }
}

std::shared_ptr<const Snapshot> Reader::snapshot() const {
  const std::lock_guard lock(mutex_);
  return snapshot_;
}

std::string Reader::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

bool Reader::refresh() {
  const std::lock_guard one(refreshing_);
  const auto before = snapshot();
  Followed now{before, ""};
  try {
    now = follow(folder_, before, options_.verify);
  } catch (const CheckpointError& error) {
    now.problem = error.what();
  }
  const std::lock_guard lock(mutex_);
  if (!now.problem.empty() && now.problem != problem_) {
    log::warn("[serving.reader] {}: {}", folder_.string(), now.problem);
  }
  problem_ = std::move(now.problem);
  // The old version ends with the last lookup that holds it.
  snapshot_ = std::move(now.snapshot);
  return snapshot_ != before;
}

void Reader::watch() {
  std::unique_lock lock(mutex_);
  while (
      !changed_.wait_for(lock, options_.period, [this] { return stopping_; })) {
    lock.unlock();
    refresh();
    lock.lock();
  }
}

} // namespace argosy::serving
