#include "argosy/ps/service/cut_job.h"

#include <chrono>
#include <map>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/ps/service/region_log.h"
#include "argosy/ps/service/region_state.h"
#include "argosy/ps/service/rows_codec.h"
#include "argosy/ps/table/save.h"

namespace argosy::ps {

namespace {

constexpr std::size_t kMostQueued = 16; // slices that wait for the disk

} // namespace

void CompactJob::begin(RegionState& state, std::uint64_t number) {
  log_.begin_snapshot(number);
  log_.add_header(state.save_header());
}

void CompactJob::add(std::uint32_t table, RowBatch rows) {
  log_.add_rows(table, encode_rows(rows));
}

void CompactJob::end() {
  log_.commit_snapshot();
}

void CompactJob::abort(const std::string&) {
  log_.abort_snapshot();
}

// What the thread writes to, made at the cut.
struct SaveJob::Writers {
  std::map<std::uint32_t, std::unique_ptr<ShardFilesWriter>> sparse;
  std::vector<DenseTable> dense; // copies
  int region = 0;
};

SaveJob::SaveJob(SaveRequest request, std::shared_ptr<rpc::IncomingCall> call)
    : request_(std::move(request)), call_(std::move(call)) {}

SaveJob::~SaveJob() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void SaveJob::begin(RegionState& state, std::uint64_t) {
  writers_ = std::make_unique<Writers>();
  writers_->region = state.tables().region();
  for (auto& [id, table] : state.tables().all()) {
    if (request_.table >= 0 && static_cast<int>(id) != request_.table) {
      continue;
    }
    if (table.dense) {
      writers_->dense.push_back(*table.dense);
    } else {
      writers_->sparse[id] = std::make_unique<ShardFilesWriter>(
          *table.sparse, request_.folder, request_.mode, call_->deadline());
    }
  }
  thread_ = std::thread([this] { write_all(); });
}

bool SaveJob::is_ready() {
  const std::lock_guard lock(mutex_);
  throw_failure();
  return queue_.size() < kMostQueued;
}

void SaveJob::add(std::uint32_t table, RowBatch rows) {
  const std::lock_guard lock(mutex_);
  queue_.emplace_back(table, std::move(rows));
  changed_.notify_all();
}

void SaveJob::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

bool SaveJob::is_finished() {
  const std::lock_guard lock(mutex_);
  throw_failure();
  return finished_;
}

void SaveJob::abort(const std::string& why) {
  fail(why);
  std::move(*call_).fail(std::make_exception_ptr(Error(why)));
}

void SaveJob::throw_failure() {
  if (!failure_.empty()) {
    throw Error(failure_);
  }
}

void SaveJob::fail(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) {
    failure_ = why;
  }
  changed_.notify_all();
}

void SaveJob::write_next(std::unique_lock<std::mutex>& lock) {
  auto [table, rows] = std::move(queue_.front());
  queue_.pop_front();
  lock.unlock();
  if (const auto found = writers_->sparse.find(table);
      found != writers_->sparse.end()) {
    found->second->add(rows, call_->deadline());
  }
  lock.lock();
}

void SaveJob::write_all() {
  try {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] {
        return !queue_.empty() || ended_ || stopped_ || !failure_.empty();
      });
      if (stopped_ || !failure_.empty()) {
        return;
      }
      if (queue_.empty()) {
        break;
      }
      write_next(lock);
    }
    lock.unlock();
    for (auto& [id, writer] : writers_->sparse) {
      writer->finish(call_->deadline());
    }
    for (const DenseTable& table : writers_->dense) {
      save_dense(table, request_.folder, writers_->region, call_->deadline());
    }
    lock.lock();
    finished_ = true;
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

} // namespace argosy::ps
