#include "argosy/checkpoint/convert/copy.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "argosy/checkpoint/import/sources.h"
#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

// A server that does not take bytes for so long is gone.
constexpr std::chrono::minutes kStepLimit{10};

Deadline step_deadline() {
  return Deadline::after(kStepLimit);
}

} // namespace

ChunkCopier::ChunkCopier(const CopyContext& context, std::uint64_t total)
    : context_(context), reader_(context.source_cipher), buffer_(kChunkBytes) {
  progress_.total = total;
}

void ChunkCopier::copy(
    const SourceTensor& tensor, const Box& box, const Take& take) {
  const std::size_t width = element_bytes(tensor.info.dtype);
  const auto step = static_cast<std::int64_t>(kChunkBytes / width);
  const std::int64_t count = box.numel();
  for (std::int64_t begin = 0; begin < count; begin += step) {
    const std::int64_t end = std::min(count, begin + step);
    const auto bytes =
        std::span(buffer_).first(static_cast<std::size_t>(end - begin) * width);
    reader_.read(tensor, box, begin, end, bytes.data());
    take(begin, end, bytes);
    progress_.bytes += bytes.size();
    if (context_.on_progress) {
      context_.on_progress(progress_);
    }
  }
}

std::unique_ptr<fs::Writer> create_file(
    const fs::Location& file, std::uint64_t bytes) {
  ARGOSY_CHECK(
      !exists(file),
      "[checkpoint.convert] {} exists, expected a new name",
      url_of(file));
  return file.fs->open_write(
      file.path, {.expected_bytes = bytes, .on_progress = {}}, step_deadline());
}

void create_folder(const fs::Location& folder) {
  const auto entry = folder.fs->stat(folder.path, step_deadline());
  ARGOSY_CHECK(
      !entry ||
          (entry->is_dir &&
           folder.fs->list(folder.path, step_deadline()).empty()),
      "[checkpoint.convert] {} exists, expected a new name or an empty folder",
      url_of(folder));
  folder.fs->make_dirs(folder.path, step_deadline());
}

void write_bytes(fs::Writer& out, std::span<const std::byte> bytes) {
  out.write(bytes, step_deadline());
}

void write_bytes(fs::Writer& out, std::string_view bytes) {
  write_bytes(out, std::as_bytes(std::span(bytes.data(), bytes.size())));
}

void commit(fs::Writer& out) {
  out.commit(step_deadline());
}

Cleanup::~Cleanup() {
  if (kept_) {
    return;
  }
  try {
    location_.fs->remove(
        location_.path, Deadline::after(std::chrono::seconds(20)));
  } catch (const std::exception&) {
    // The error that led here is the one to tell.
  }
}

} // namespace argosy::checkpoint
