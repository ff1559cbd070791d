#include "argosy/ps/service/region_log.h"

#include <algorithm>
#include <sstream>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/ps/service/bytes.h"
#include "argosy/ps/service/region_state.h"
#include "argosy/ps/service/rows_codec.h"

namespace argosy::ps {

namespace {

constexpr std::uint32_t kHeaderPiece = 0xffffffff; // in the place of a table

} // namespace

RegionLog::RegionLog(const LogOptions& options, int region)
    : options_(options) {
  if (options.folder.empty()) {
    return;
  }
  log_ = std::make_unique<CommandLog>(options.folder, region, options.sync);
  note_path_ =
      std::filesystem::path(options.folder) / str("region-", region, ".owners");
  read_note();
}

void RegionLog::read_note() {
  std::istringstream in(read_file(note_path_).value_or(""));
  in >> epoch_;
  std::uint64_t incarnation = 0;
  while (in >> incarnation) {
    owners_.push_back(incarnation);
  }
}

// An empty log is one, too: nothing had been acknowledged.
std::optional<LogPosition> RegionLog::position() const {
  if (!on() || owners_.empty()) {
    return std::nullopt;
  }
  return LogPosition{epoch_, last_number_};
}

bool RegionLog::belongs_to(std::uint64_t incarnation) const {
  return position() &&
      std::find(owners_.begin(), owners_.end(), incarnation) != owners_.end();
}

std::uint64_t RegionLog::recover(RegionState& state) {
  if (!on()) {
    return 0;
  }
  if (const auto bytes = log_->read_snapshot()) {
    ByteReader in(*bytes, "snapshot");
    last_number_ = in.get<std::uint64_t>();
    while (!in.rest().empty()) {
      const auto table = in.get<std::uint32_t>();
      const std::string_view piece = in.raw(in.get<std::uint64_t>());
      if (table == kHeaderPiece) {
        state.load_header(piece);
      } else {
        state.tables().sparse(table).sparse->partition(0).import_rows(
            decode_rows(piece));
      }
    }
    state.finish_load();
  }
  log_->replay([&](std::uint64_t number, const rpc::Message& message) {
    // A snapshot that was not finished leaves commands before the last one.
    if (number == last_number_ + 1) {
      state.replay(decode_command(message));
      last_number_ = number;
    }
  });
  // A save that was under way has ended with the process.
  state.tables().end_cut(false);
  return last_number_;
}

void RegionLog::set_owners(
    std::vector<std::uint64_t> incarnations, std::uint64_t epoch) {
  if (!on()) {
    return;
  }
  owners_ = std::move(incarnations);
  epoch_ = epoch;
  std::ostringstream out;
  out << epoch;
  for (const std::uint64_t owner : owners_) {
    out << ' ' << owner;
  }
  write_file(note_path_, out.str());
}

void RegionLog::append(std::uint64_t number, const rpc::Message& command) {
  if (on()) {
    log_->append(number, command);
    last_number_ = number;
  }
}

void RegionLog::clear() {
  if (on()) {
    log_->clear();
    last_number_ = 0;
  }
}

bool RegionLog::wants_snapshot() const {
  return on() && log_->bytes() > options_.limit_bytes;
}

void RegionLog::begin_snapshot(std::uint64_t number) {
  if (on()) {
    log_->begin_snapshot();
    ByteWriter out;
    out.put(number);
    log_->write_snapshot(out.take());
    last_number_ = number;
  }
}

void RegionLog::add_piece(std::uint32_t table, std::string_view bytes) {
  if (on()) {
    ByteWriter out;
    out.put(table).put(static_cast<std::uint64_t>(bytes.size()));
    log_->write_snapshot(out.take());
    log_->write_snapshot(bytes);
  }
}

void RegionLog::add_header(std::string_view header) {
  add_piece(kHeaderPiece, header);
}

void RegionLog::add_rows(std::uint32_t table, std::string_view rows) {
  add_piece(table, rows);
}

void RegionLog::commit_snapshot() {
  if (on()) {
    log_->commit_snapshot();
  }
}

void RegionLog::abort_snapshot() {
  if (on()) {
    log_->abort_snapshot();
  }
}

} // namespace argosy::ps
