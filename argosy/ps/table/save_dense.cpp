#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/fs/open.h"
#include "argosy/ps/table/row_text.h"
#include "argosy/ps/table/save.h"
#include "argosy/ps/table/text_streams.h"

namespace argosy::ps {

namespace {

constexpr std::string_view kStepsPrefix = "# steps ";

fs::Location dense_folder(const DenseTable& table, const std::string& dir) {
  std::array<char, 16> name;
  std::snprintf(name.data(), name.size(), "%03d", table.config().table_id);
  return fs::open(fs::join_path(dir, name.data()));
}

fs::Location dense_file(const fs::Location& folder, int server) {
  std::array<char, 32> name;
  std::snprintf(name.data(), name.size(), "part-%03d", server);
  return {folder.fs, fs::join_path(folder.path, name.data())};
}

// What has been read of a dense table, in the order of its elements.
struct DenseLoad {
  std::uint64_t first;
  std::uint64_t end;
  std::uint64_t at = 0;
  std::vector<float> values;
  std::vector<std::vector<float>> columns;
  long long steps = 0;

  void take(std::string_view line) {
    if (line.starts_with(kStepsPrefix)) {
      const auto count = parse_int(line.substr(kStepsPrefix.size()));
      ARGOSY_CHECK(count && *count >= 0, "[ps.load] '{}' has no steps", line);
      steps = *count;
      return;
    }
    const bool mine = at >= first && at < end;
    const auto index = static_cast<std::size_t>(at - first);
    ++at;
    if (!mine) {
      return;
    }
    values[index] = take_number(line);
    for (std::vector<float>& column : columns) {
      column[index] = take_number(line);
    }
    ARGOSY_CHECK(
        trim(line).empty(),
        "[ps.load] '{}' follows {} columns",
        line,
        columns.size() + 1);
  }
};

void read_dense_file(
    const fs::Location& file, DenseLoad& load, Deadline deadline) {
  LineReader lines(file, false, deadline);
  std::string_view line;
  while (lines.next(line, deadline)) {
    try {
      load.take(line);
    } catch (const InvalidArgument& error) {
      throw CheckpointError(
          str("[ps.load] ",
              lines.url(),
              ", line ",
              lines.number(),
              ": ",
              error.what()));
    }
  }
}

} // namespace

void save_dense(
    const DenseTable& table,
    const std::string& dir,
    int server,
    Deadline deadline) {
  const fs::Location folder = dense_folder(table, dir);
  folder.fs->make_dirs(folder.path, deadline);
  TextWriter writer(dense_file(folder, server), false, deadline);
  std::string text = str(kStepsPrefix, table.steps(), "\n");
  for (std::size_t i = 0; i < table.size(); ++i) {
    append_number(table.values()[i], text);
    for (int column = 0; column < table.num_columns(); ++column) {
      text += ' ';
      append_number(table.column(column)[i], text);
    }
    text += '\n';
    constexpr std::size_t kFlushBytes = 1u << 20;
    if (text.size() > kFlushBytes) {
      writer.write(text, deadline);
      text.clear();
    }
  }
  writer.write(text, deadline);
  writer.commit(deadline);
}

void load_dense(
    DenseTable& table,
    const std::string& dir,
    std::uint64_t first,
    std::uint64_t total,
    Deadline deadline) {
  const fs::Location folder = dense_folder(table, dir);
  DenseLoad load{first, first + table.size()};
  load.values.resize(table.size());
  load.columns.assign(
      static_cast<std::size_t>(table.num_columns()),
      std::vector<float>(table.size()));
  for (int server = 0;; ++server) {
    const fs::Location file = dense_file(folder, server);
    if (!file.fs->stat(file.path, deadline)) {
      break;
    }
    read_dense_file(file, load, deadline);
  }
  if (load.at != total) {
    throw CheckpointError(
        str("[ps.load] ",
            folder.fs->url(folder.path),
            ": ",
            load.at,
            " elements of dense table '",
            table.config().name,
            "', expected ",
            total));
  }
  table.set_values(load.values);
  table.set_state(std::move(load.columns), load.steps);
}

} // namespace argosy::ps
