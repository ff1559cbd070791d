#include "argosy/common/exit_note.h"

#include <thread>

#include "argosy/common/environment.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"

namespace argosy {

namespace {

// A process closes its connections some time before it ends.
constexpr std::chrono::milliseconds kNoteLimit{2000};
constexpr std::chrono::milliseconds kPause{2};

constexpr std::string_view kLeft = "has left with exit code 0";
constexpr std::string_view kOfGroup = " of group ";

std::string ending_text(const ProcessStatus& status) {
  if (status.success()) {
    return std::string(kLeft);
  }
  return status.signal != 0
      ? str_format(
            "died of signal {} ({})", status.signal, signal_name(status.signal))
      : str("ended with exit code ", status.exit_code);
}

// "0-2, 5" -> {0, 1, 2, 5}: what ranges_text() makes of them.
std::vector<int> parse_ranges(std::string_view text) {
  std::vector<int> numbers;
  for (const std::string& part : split(text, ',')) {
    const auto ends = split(trim(part), '-');
    const auto first = parse_int(ends.empty() ? "" : ends.front());
    const auto last = parse_int(ends.empty() ? "" : ends.back());
    for (auto i = first; i && last && *i <= *last; ++*i) {
      numbers.push_back(static_cast<int>(*i));
    }
  }
  return numbers;
}

} // namespace

std::filesystem::path exit_note_path(
    const std::filesystem::path& folder, int rank) {
  return folder / str("flight_exit_", rank);
}

void write_exit_note(
    const std::filesystem::path& folder,
    int rank,
    const ProcessStatus& status) {
  write_file(
      exit_note_path(folder, rank), str(status.exit_code, " ", status.signal));
}

std::optional<ProcessStatus> read_exit_note(
    const std::filesystem::path& folder, int rank, Deadline deadline) {
  for (;;) {
    const auto text = read_file(exit_note_path(folder, rank));
    const auto parts = split(text.value_or(""), ' ');
    if (parts.size() == 2) {
      return ProcessStatus{
          .exit_code = static_cast<int>(parse_int(parts[0]).value_or(1)),
          .signal = static_cast<int>(parse_int(parts[1]).value_or(0))};
    }
    if (deadline.expired()) {
      return std::nullopt;
    }
    std::this_thread::sleep_for(kPause);
  }
}

std::string how_rank_ended(int rank) {
  const Environment env = Environment::of_process();
  const auto folder = env.find("ARGOSY_FLIGHT_DIR");
  if (!folder || env.get("ARGOSY_HANG_REPORT", "") != "launcher") {
    return "";
  }
  try {
    const auto status =
        read_exit_note(*folder, rank, Deadline::after(kNoteLimit));
    return status ? ending_text(*status) : "";
  } catch (const SystemError&) {
    return ""; // it only explains an error that is thrown in any case
  }
}

std::string gone_text(
    const std::vector<int>& ranks,
    const std::string& group,
    const std::string& ended) {
  return str("rank ", ranges_text(ranks), kOfGroup, group, " ", ended);
}

namespace {

// Of "rank 1, 3 of group" where " of group" begins at `group`.
std::vector<int> ranks_before(const std::string& error, std::size_t group) {
  constexpr std::string_view kRank = "rank ";
  const std::size_t rank = error.rfind(kRank, group);
  if (group == std::string::npos || rank == std::string::npos) {
    return {};
  }
  const std::size_t begin = rank + kRank.size();
  return parse_ranges(std::string_view(error).substr(begin, group - begin));
}

} // namespace

std::vector<int> ranks_blamed(const std::string& error) {
  return ranks_before(error, error.find(kOfGroup));
}

std::vector<int> ranks_that_left(const std::string& error) {
  const std::size_t left = error.find(kLeft);
  return left == std::string::npos
      ? std::vector<int>()
      : ranks_before(error, error.rfind(kOfGroup, left));
}

} // namespace argosy
