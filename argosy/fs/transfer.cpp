#include "argosy/fs/transfer.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

namespace argosy::fs {

namespace {

constexpr std::size_t kCopyChunk = 8u << 20;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

void copy_file(
    const Location& from,
    const Location& to,
    const OnProgress& on_progress,
    Deadline deadline) {
  const auto reader = from.fs->open_read(from.path, {}, deadline);
  const auto writer = to.fs->open_write(
      to.path,
      {.expected_bytes = reader->size(), .on_progress = on_progress},
      deadline);
  std::vector<std::byte> chunk(
      std::min<std::uint64_t>(kCopyChunk, reader->size()));
  for (std::uint64_t at = 0; at < reader->size(); at += chunk.size()) {
    chunk.resize(std::min<std::uint64_t>(kCopyChunk, reader->size() - at));
    reader->read_at(at, chunk, deadline);
    writer->write(chunk, deadline);
  }
  writer->commit(deadline);
}

// Makes the folders of the copy, and returns which files to copy, relative to
// both.
std::vector<std::string> make_folders(
    const Location& from, const Location& to, Deadline deadline) {
  std::vector<std::string> files;
  std::vector<std::string> folders = {""};
  while (!folders.empty()) {
    const std::string folder = std::move(folders.back());
    folders.pop_back();
    to.fs->make_dirs(join_path(to.path, folder), deadline);
    for (const Entry& entry :
         from.fs->list(join_path(from.path, folder), deadline)) {
      (entry.is_dir ? folders : files).push_back(join_path(folder, entry.name));
    }
  }
  return files;
}

// Calls `run(i)` for i < count on several threads, this one among them. The
// first exception stops them all and is thrown.
void run_on_threads(
    std::size_t count,
    int num_threads,
    const std::function<void(std::size_t)>& run) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        run(i);
      } catch (...) {
        next = count;
        const std::lock_guard lock(mutex);
        error = error ? error : std::current_exception();
      }
    }
  };
  std::vector<std::jthread> threads;
  for (int i = 1; i < std::min<int>(num_threads, static_cast<int>(count));
       ++i) {
    threads.emplace_back(work);
  }
  work();
  threads.clear(); // joins
  if (error) {
    std::rethrow_exception(error);
  }
}

} // namespace

std::string read_text(const Location& file, Deadline deadline) {
  const auto reader = file.fs->open_read(file.path, {}, deadline);
  std::string text(reader->size(), '\0');
  reader->read_at(
      0, std::as_writable_bytes(std::span(text.data(), text.size())), deadline);
  return text;
}

void write_text(
    const Location& file, std::string_view text, Deadline deadline) {
  const auto writer =
      file.fs->open_write(file.path, {.expected_bytes = text.size()}, deadline);
  writer->write(bytes_of(text), deadline);
  writer->commit(deadline);
}

void copy(
    const Location& from,
    const Location& to,
    const CopyOptions& options,
    Deadline deadline) {
  ARGOSY_CHECK(
      options.num_threads >= 1,
      "[fs.copy] num_threads is {}, expected at least 1",
      options.num_threads);
  const auto source = from.fs->stat(from.path, deadline);
  if (!source) {
    throw FsError(
        Failure::NotFound,
        str("[fs.copy] ", from.fs->url(from.path), " does not exist"));
  }
  if (!source->is_dir) {
    copy_file(from, to, options.on_progress, deadline);
    return;
  }
  const auto files = make_folders(from, to, deadline);
  run_on_threads(files.size(), options.num_threads, [&](std::size_t i) {
    copy_file(
        {from.fs, join_path(from.path, files[i])},
        {to.fs, join_path(to.path, files[i])},
        options.on_progress,
        deadline);
  });
}

} // namespace argosy::fs
