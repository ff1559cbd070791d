#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/fs/open.h"
#include "argosy/ps/table/row_text.h"
#include "argosy/ps/table/save.h"
#include "argosy/ps/table/shell_filter.h"
#include "argosy/ps/table/spool.h"
#include "argosy/ps/table/text_streams.h"

namespace argosy::ps {

namespace {

constexpr std::string_view kGzipEnding = ".gz";

// Holds the number of shards of the table that was saved. Older saves have
// none.
constexpr const char* kShardCount = "shards";

std::string table_folder(const std::string& dir, int table_id) {
  std::array<char, 16> name;
  std::snprintf(name.data(), name.size(), "%03d", table_id);
  return fs::join_path(dir, name.data());
}

std::string shard_file_name(int server, int shard, bool gzip) {
  std::array<char, 48> name;
  std::snprintf(name.data(), name.size(), "part-%03d-%05d", server, shard);
  return std::string(name.data()) + (gzip ? ".gz" : "");
}

struct ShardFile {
  std::string name;
  int shard = 0;
  bool gzip = false;
};

std::optional<int> digits(std::string_view text) {
  int value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  const bool all = error == std::errc() && end == text.data() + text.size();
  return all && text[0] != '-' ? std::optional(value) : std::nullopt;
}

// "part-000-00012.gz"; nullopt for other names.
std::optional<ShardFile> parse_shard_file(const std::string& name) {
  std::string_view rest = name;
  const bool gzip = rest.ends_with(kGzipEnding);
  if (gzip) {
    rest.remove_suffix(kGzipEnding.size());
  }
  constexpr std::string_view kPrefix = "part-";
  if (!rest.starts_with(kPrefix)) {
    return std::nullopt;
  }
  rest.remove_prefix(kPrefix.size());
  const std::size_t dash = rest.find('-');
  if (dash == std::string_view::npos || !digits(rest.substr(0, dash))) {
    return std::nullopt;
  }
  const auto shard = digits(rest.substr(dash + 1));
  return shard ? std::optional(ShardFile{name, *shard, gzip}) : std::nullopt;
}

bool converts(SaveMode mode, const std::string& command) {
  return !command.empty() &&
      (mode == SaveMode::Delta || mode == SaveMode::Base);
}

} // namespace

std::string shard_path(
    const std::string& dir, int table_id, int server, int shard, bool gzip) {
  return fs::join_path(
      table_folder(dir, table_id), shard_file_name(server, shard, gzip));
}

// ---- Writing ----------------------------------------------------------------

struct ShardFilesWriter::Impl {
  const RowLayout layout;
  const ShardMap shard_map;
  const int server;
  const bool gzip;
  const std::string converter; // empty: none
  const fs::Location folder;
  Spool texts; // by local shard
  std::size_t rows = 0;

  int first_shard() const { return shard_map.first_shard(server); }
  int end_shard() const { return shard_map.end_shard(server); }

  void write_file(int shard, Deadline deadline) {
    const fs::Location file{
        folder.fs,
        fs::join_path(folder.path, shard_file_name(server, shard, gzip))};
    TextWriter writer(file, gzip, deadline);
    const auto text = static_cast<std::size_t>(shard - first_shard());
    if (converter.empty()) {
      texts.read(
          text, [&](std::string_view part) { writer.write(part, deadline); });
    } else {
      write_converted(text, writer, deadline);
    }
    writer.commit(deadline);
  }

  void write_converted(
      std::size_t text, TextWriter& writer, Deadline deadline) {
    ShellFilter filter(converter);
    texts.read(text, [&](std::string_view part) { filter.write(part); });
    filter.run(deadline);
    LineReader output(fs::open(filter.output()), false, deadline);
    std::string_view line;
    while (output.next(line, deadline)) {
      writer.write(std::string(line) + '\n', deadline);
    }
  }

  void write_count(Deadline deadline) {
    TextWriter writer(
        {folder.fs, fs::join_path(folder.path, kShardCount)}, false, deadline);
    writer.write(str(shard_map.shard_num, '\n'), deadline);
    writer.commit(deadline);
  }

  // Files of the same shards that another number of servers, or one with
  // another ending, has left; and those of shards that the table does not have.
  void remove_stale(Deadline deadline) {
    for (const fs::Entry& entry : folder.fs->list(folder.path, deadline)) {
      const auto file = parse_shard_file(entry.name);
      const bool mine = file && file->shard >= first_shard() &&
          file->shard < end_shard() &&
          entry.name != shard_file_name(server, file->shard, gzip);
      const bool of_nobody =
          file && file->shard >= shard_map.shard_num && first_shard() == 0;
      if (mine || of_nobody) {
        folder.fs->remove(fs::join_path(folder.path, entry.name), deadline);
      }
    }
  }
};

ShardFilesWriter::ShardFilesWriter(
    const SparseTable& table,
    const std::string& dir,
    SaveMode mode,
    Deadline deadline) {
  const SparseConfig& config = table.config();
  const ShardMap& map = table.shard_map();
  const int shards =
      map.end_shard(table.server()) - map.first_shard(table.server());
  impl_.reset(new Impl{
      table.layout(),
      map,
      table.server(),
      config.compress_in_save,
      converts(mode, config.converter) ? config.converter : "",
      fs::open(table_folder(dir, config.table_id)),
      Spool(static_cast<std::size_t>(shards))});
  impl_->folder.fs->make_dirs(impl_->folder.path, deadline);
}

ShardFilesWriter::~ShardFilesWriter() = default;

void ShardFilesWriter::add(const RowBatch& rows, Deadline deadline) {
  Impl& impl = *impl_;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const int shard = impl.shard_map.shard_of(rows.keys[i]);
    const auto text = static_cast<std::size_t>(shard - impl.first_shard());
    std::string& tail = impl.texts.tail(text);
    const std::size_t before = tail.size();
    append_row_text(impl.layout, rows.keys[i], rows.row(i), tail);
    impl.texts.grown(tail.size() - before);
  }
  impl.rows += rows.size();
  if (deadline.expired()) {
    throw TimeoutError(
        str("[ps.save] ",
            impl.folder.fs->url(impl.folder.path),
            ": not written after ",
            deadline.limit_text()));
  }
}

void ShardFilesWriter::finish(Deadline deadline) {
  for (int shard = impl_->first_shard(); shard < impl_->end_shard(); ++shard) {
    impl_->write_file(shard, deadline);
  }
  impl_->remove_stale(deadline);
  if (impl_->first_shard() == 0) {
    impl_->write_count(deadline);
  }
}

std::size_t ShardFilesWriter::rows() const {
  return impl_->rows;
}

// ---- Reading ----------------------------------------------------------------

struct ShardFilesReader::Impl {
  const RowLayout layout;
  const ShardMap shard_map;
  const std::string deconverter; // empty: none
  const fs::Location folder;
  const int server;
  int saved_shards = 0;         // of the table that was saved
  std::vector<ShardFile> files; // of this server's shards; all if others saved
  std::size_t next_file = 0;
  std::unique_ptr<ShellFilter> filter;
  std::unique_ptr<LineReader> lines;

  [[noreturn]] void fail(const std::string& what) const {
    throw CheckpointError(
        str("[ps.load] ", folder.fs->url(folder.path), ": ", what));
  }

  // As the save says, else by its files: all shards up to the highest.
  int num_saved(
      const std::map<int, ShardFile>& by_shard,
      bool has_count,
      Deadline deadline) const {
    if (!has_count) {
      return by_shard.empty() ? 0 : by_shard.rbegin()->first + 1;
    }
    LineReader reader(
        {folder.fs, fs::join_path(folder.path, kShardCount)}, false, deadline);
    std::string_view line;
    const bool read = reader.next(line, deadline);
    const auto number = read ? digits(line) : std::nullopt;
    if (!number || *number < 1) {
      fail(str(kShardCount, " has no number of shards"));
    }
    return *number;
  }

  void find_files(Deadline deadline) {
    std::map<int, ShardFile> by_shard;
    bool has_count = false;
    for (const fs::Entry& entry : folder.fs->list(folder.path, deadline)) {
      const auto file = parse_shard_file(entry.name);
      has_count = has_count || entry.name == kShardCount;
      if (!file) {
        continue;
      }
      const auto [other, fresh] = by_shard.emplace(file->shard, *file);
      if (!fresh) {
        fail(
            str("both ",
                other->second.name,
                " and ",
                entry.name,
                " are of shard ",
                file->shard));
      }
    }
    saved_shards = num_saved(by_shard, has_count, deadline);
    if (by_shard.empty() ||
        by_shard.size() != static_cast<std::size_t>(saved_shards) ||
        by_shard.rbegin()->first + 1 != saved_shards) {
      fail(
          str("has files of ",
              by_shard.size(),
              " shards, expected ",
              saved_shards == 0 ? shard_map.shard_num : saved_shards,
              ", one for each shard of the table"));
    }
    const bool same = saved_shards == shard_map.shard_num;
    for (const auto& [shard, file] : by_shard) {
      if (!same ||
          (shard >= shard_map.first_shard(server) &&
           shard < shard_map.end_shard(server))) {
        files.push_back(file);
      }
    }
  }

  void open_file(const ShardFile& file, Deadline deadline) {
    const fs::Location location{
        folder.fs, fs::join_path(folder.path, file.name)};
    lines = std::make_unique<LineReader>(location, file.gzip, deadline);
    if (deconverter.empty()) {
      return;
    }
    filter = std::make_unique<ShellFilter>(deconverter);
    std::string_view line;
    while (lines->next(line, deadline)) {
      filter->write(std::string(line) + '\n');
    }
    filter->run(deadline);
    lines = std::make_unique<LineReader>(
        fs::open(filter->output()), false, deadline);
  }

  void check_key(std::uint64_t key) const {
    const ShardFile& file = files[next_file - 1];
    const int shard = ShardMap{.shard_num = saved_shards}.shard_of(key);
    if (shard != file.shard) {
      fail(str(file.name, " has key ", key, " of shard ", shard));
    }
  }

  void take_row(std::string_view line, RowBatch& out) const {
    try {
      parse_row_text(layout, line, out);
    } catch (const InvalidArgument& error) {
      throw CheckpointError(
          str("[ps.load] ",
              lines->url(),
              ", line ",
              lines->number(),
              ": ",
              error.what()));
    }
  }
};

ShardFilesReader::ShardFilesReader(
    const SparseTable& table,
    const std::string& dir,
    Deadline deadline,
    SaveMode mode) {
  const SparseConfig& config = table.config();
  impl_.reset(new Impl{
      table.layout(),
      table.shard_map(),
      converts(mode, config.deconverter) ? config.deconverter : "",
      fs::open(table_folder(dir, config.table_id)),
      table.server()});
  impl_->find_files(deadline);
}

ShardFilesReader::~ShardFilesReader() = default;

bool ShardFilesReader::next(
    std::size_t max_rows, RowBatch& out, Deadline deadline) {
  Impl& impl = *impl_;
  out.clear();
  std::string_view line;
  while (out.size() < max_rows) {
    if (!impl.lines) {
      if (impl.next_file == impl.files.size()) {
        break;
      }
      impl.open_file(impl.files[impl.next_file++], deadline);
    }
    if (!impl.lines->next(line, deadline)) {
      impl.lines.reset();
      continue;
    }
    impl.take_row(line, out);
    impl.check_key(out.keys.back());
    if (impl.shard_map.server_of(out.keys.back()) != impl.server) {
      out.remove_last(); // another server's, of a save by other shards
    }
  }
  return out.size() > 0;
}

} // namespace argosy::ps
