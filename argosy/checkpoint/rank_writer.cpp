#include "argosy/checkpoint/rank_writer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <utility>

#include "argosy/comm/codec.h"
#include "argosy/comm/kernels/reduce.h"
#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "argosy/fs/error.h"

namespace argosy::comm {

template <>
struct Codec<checkpoint::Hash128> {
  static void encode(const checkpoint::Hash128& hash, std::string& bytes) {
    encode_to(bytes, hash.low, hash.high);
  }
  static checkpoint::Hash128 decode(ByteReader& reader) {
    const auto low = reader.read<std::uint64_t>();
    return {low, reader.read<std::uint64_t>()};
  }
};

template <>
struct Codec<checkpoint::FileRecord> {
  static void encode(const checkpoint::FileRecord& file, std::string& bytes) {
    encode_to(bytes, file.path, file.bytes);
  }
  static checkpoint::FileRecord decode(ByteReader& reader) {
    auto path = reader.read<std::string>();
    return {std::move(path), reader.read<std::uint64_t>()};
  }
};

template <>
struct Codec<checkpoint::Written::Piece> {
  static void encode(
      const checkpoint::Written::Piece& piece, std::string& bytes) {
    const auto& record = piece.record;
    encode_to(
        bytes,
        piece.tensor,
        record.box.offset,
        record.box.size,
        record.file,
        record.offset,
        record.hashes,
        record.tags);
  }
  static checkpoint::Written::Piece decode(ByteReader& reader) {
    checkpoint::Written::Piece piece;
    piece.tensor = reader.read<std::uint32_t>();
    piece.record.box.offset = reader.read<dtensor::Shape>();
    piece.record.box.size = reader.read<dtensor::Shape>();
    piece.record.file = reader.read<std::uint32_t>();
    piece.record.offset = reader.read<std::uint64_t>();
    piece.record.hashes = reader.read<std::vector<checkpoint::Hash128>>();
    piece.record.tags = reader.read<std::vector<checkpoint::Hash128>>();
    return piece;
  }
};

} // namespace argosy::comm

namespace argosy::checkpoint {

namespace {

// A part of a view, by a box within the box of the view.
at::Tensor part_of_view(const LocalPiece& piece, const Box& box) {
  at::Tensor view = piece.values;
  for (std::size_t dim = 0; dim < box.size.size(); ++dim) {
    view = view.narrow(
        static_cast<std::int64_t>(dim),
        box.offset[dim] - piece.box.offset[dim],
        box.size[dim]);
  }
  return view;
}

std::uint64_t bytes_of_file(const FilePlan& file) {
  return file.header.file_bytes;
}

} // namespace

std::string encode(const Written& written) {
  using Sums = std::map<std::int64_t, Hash128>;
  std::vector<std::pair<std::uint32_t, Sums>> sums;
  for (const auto& [tensor, each] : written.sums) {
    sums.emplace_back(tensor, each.sums());
  }
  std::string bytes;
  comm::encode_to(
      bytes, written.files, written.pieces, sums, written.linked_bytes);
  return bytes;
}

Written decode_written(
    const std::string& bytes, const std::vector<TensorInfo>& tensors) {
  using Sums = std::map<std::int64_t, Hash128>;
  comm::ByteReader reader(bytes);
  Written written;
  written.files = reader.read<std::vector<FileRecord>>();
  written.pieces = reader.read<std::vector<Written::Piece>>();
  for (const auto& [tensor, sums] :
       reader.read<std::vector<std::pair<std::uint32_t, Sums>>>()) {
    BlockSums each(tensors.at(tensor));
    for (const auto& [block, sum] : sums) {
      each.set(block, sum);
    }
    written.sums.emplace_back(tensor, std::move(each));
  }
  written.linked_bytes = reader.read<std::uint64_t>();
  return written;
}

struct RankWriter::Impl {
  const Folder folder;
  const std::shared_ptr<const SavePlan> plan;
  const WriteSettings settings;
  StreamWriter stream;
  std::shared_ptr<const Cipher> cipher; // null: plain
  std::vector<at::Tensor> views;        // by write; of the user's memory
  std::vector<const std::byte*> staged; // by write; null: not staged
  Written written;
  std::map<std::uint32_t, BlockSums> sums;
  std::size_t file = 0;    // the next one, or the open one
  std::size_t in_file = 0; // the next tensor of the open file
  bool is_open = false;
  std::uint64_t left = 0;
  std::chrono::steady_clock::time_point told = std::chrono::steady_clock::now();

  const TensorInfo& info_of(std::size_t write) const {
    return plan->inventory.tensors[plan->writes[write].tensor];
  }
  const FilePlan& current() const { return plan->files[file]; }

  std::string path_in_folder(const std::string& path) const {
    return fs::join_path(folder.path_of(settings.name), path);
  }

  // The values of a write, row-major without gaps. Keeps what owns them.
  std::span<const std::byte> values_of(std::size_t write, at::Tensor& owner) {
    const auto bytes = static_cast<std::size_t>(
        plan->writes[write].box.numel() *
        static_cast<std::int64_t>(element_bytes(info_of(write).dtype)));
    if (staged[write] != nullptr) {
      return {staged[write], bytes};
    }
    owner = views[write].contiguous();
    return {static_cast<const std::byte*>(owner.data_ptr()), bytes};
  }

  // Writes the next tensor, after opening its file if it is the first.
  void write_next() {
    if (!is_open) {
      begin_file();
      if (!is_open) {
        return; // the file was linked
      }
    }
    const StoredTensor& stored = current().header.tensors[in_file];
    const std::size_t write = current().writes[in_file];
    at::Tensor owner;
    const auto values = values_of(write, owner);
    write_piece(write, stored, values);
    left -= stored.bytes;
    tell_progress();
    if (++in_file == current().header.tensors.size()) {
      end_file();
    }
  }

  void tell_progress() {
    const auto now = std::chrono::steady_clock::now();
    if (settings.on_progress != nullptr &&
        now - told > std::chrono::milliseconds(500)) {
      told = now;
      settings.on_progress(left);
    }
  }

  void begin_file() {
    if (current().frozen && link_file()) {
      end_file();
      return;
    }
    in_file = 0;
    is_open = true;
    const SafetensorsHeader& header = current().header;
    stream.open(
        folder.fs(),
        path_in_folder(current().path),
        header.file_bytes,
        settings.deadline);
    const std::string bytes = header_bytes(header);
    stream.write(std::as_bytes(std::span(bytes)));
    left -= header.data_begin;
  }

  void end_file() {
    written.files.push_back({current().path, bytes_of_file(current())});
    ++file;
    is_open = false;
  }

  void write_piece(
      std::size_t write,
      const StoredTensor& stored,
      std::span<const std::byte> values) {
    const PlannedWrite& planned = plan->writes[write];
    PieceRecord record{
        .box = planned.box,
        .file = plan->first_file + static_cast<std::uint32_t>(file),
        .offset = stored.offset};
    BlockSums& of_tensor =
        sums.try_emplace(planned.tensor, info_of(write)).first->second;
    const std::size_t width = element_bytes(info_of(write).dtype);
    std::vector<std::byte> encrypted;
    for (std::size_t begin = 0; begin < values.size(); begin += kChunkBytes) {
      const auto plain =
          values.subspan(begin, std::min(kChunkBytes, values.size() - begin));
      if (cipher != nullptr) {
        encrypted.assign(plain.begin(), plain.end());
        record.tags.push_back(
            cipher->encrypt(record.file, stored.offset + begin, encrypted));
      }
      record.hashes.push_back(write_chunk(
          cipher != nullptr ? encrypted : plain,
          [&](std::size_t from, std::size_t count) {
            of_tensor.add(
                planned.box,
                static_cast<std::int64_t>((begin + from) / width),
                static_cast<std::int64_t>((begin + from + count) / width),
                plain.data() + from);
          }));
    }
    written.pieces.push_back({planned.tensor, std::move(record)});
  }

  // Hashes and writes a chunk in slices, and calls sum(from, count) for each:
  // its bytes stay in the cache of the core from one to the other.
  template <typename F>
  Hash128 write_chunk(std::span<const std::byte> bytes, const F& sum) {
    constexpr std::size_t kSliceBytes = std::size_t{256} << 10;
    BytesHash hash;
    for (std::size_t from = 0; from < bytes.size(); from += kSliceBytes) {
      const std::size_t count = std::min(kSliceBytes, bytes.size() - from);
      sum(from, count);
      hash.add(bytes.subspan(from, count));
      stream.write(bytes.subspan(from, count));
    }
    return hash.result();
  }

  // The piece of the last checkpoint with the same box in the file of the same
  // name; null if there is none.
  const PieceRecord* last_piece(std::size_t write) const {
    const TensorRecord* known = settings.last->find(info_of(write).name);
    if (known == nullptr || known->info != info_of(write)) {
      return nullptr;
    }
    for (const PieceRecord& piece : known->pieces) {
      if (piece.box == plan->writes[write].box &&
          settings.last->files[piece.file].path == current().path) {
        return &piece;
      }
    }
    return nullptr;
  }

  // Links the file of the last checkpoint if it has the same bytes.
  bool link_file() {
    if (settings.last == nullptr || cipher != nullptr ||
        settings.last->encryption) {
      return false;
    }
    std::vector<Written::Piece> same;
    const SafetensorsHeader& header = current().header;
    for (std::size_t i = 0; i < header.tensors.size(); ++i) {
      const std::size_t write = current().writes[i];
      const PieceRecord* known = last_piece(write);
      at::Tensor owner;
      if (known == nullptr || known->offset != header.tensors[i].offset ||
          known->hashes != hashes_of(values_of(write, owner))) {
        return false;
      }
      same.push_back({plan->writes[write].tensor, *known});
      same.back().record.file =
          plan->first_file + static_cast<std::uint32_t>(file);
    }
    try {
      if (!folder.fs().link(
              fs::join_path(folder.path_of(settings.last_name), current().path),
              path_in_folder(current().path),
              settings.deadline)) {
        return false;
      }
    } catch (const fs::FsError&) {
      return false; // somebody has removed it: then it is written
    }
    for (Written::Piece& piece : same) {
      add_sums(piece);
      written.pieces.push_back(std::move(piece));
    }
    written.linked_bytes += header.file_bytes;
    left -= header.file_bytes;
    return true;
  }

  void add_sums(const Written::Piece& piece) {
    for (std::size_t i = 0; i < current().writes.size(); ++i) {
      const std::size_t write = current().writes[i];
      if (plan->writes[write].tensor == piece.tensor) {
        at::Tensor owner;
        const auto values = values_of(write, owner);
        sums.try_emplace(piece.tensor, info_of(write))
            .first->second.add(
                piece.record.box, 0, piece.record.box.numel(), values.data());
      }
    }
  }

  static std::vector<Hash128> hashes_of(std::span<const std::byte> values) {
    std::vector<Hash128> hashes;
    for (std::size_t begin = 0; begin < values.size(); begin += kChunkBytes) {
      hashes.push_back(hash_bytes(
          values.subspan(begin, std::min(kChunkBytes, values.size() - begin))));
    }
    return hashes;
  }
};

RankWriter::RankWriter(
    const Folder& folder,
    std::shared_ptr<const SavePlan> plan,
    const Contents& contents,
    WriteSettings settings,
    WriteBuffers& buffers)
    : impl_(new Impl{
          folder,
          std::move(plan),
          std::move(settings),
          StreamWriter(buffers)}) {
  const auto& sources = impl_->plan->inventory.sources[contents.rank()];
  for (const PlannedWrite& write : impl_->plan->writes) {
    const auto& source = sources[write.holding];
    impl_->views.push_back(part_of_view(
        contents.slots()[source.slot].pieces[source.piece], write.box));
  }
  impl_->staged.resize(impl_->views.size(), nullptr);
  for (const FilePlan& file : impl_->plan->files) {
    impl_->left += bytes_of_file(file);
  }
}

RankWriter::~RankWriter() = default;

void RankWriter::encrypt_with(std::shared_ptr<const Cipher> cipher) {
  impl_->cipher = std::move(cipher);
}

std::uint64_t RankWriter::bytes() const {
  std::uint64_t all = 0;
  for (const FilePlan& file : impl_->plan->files) {
    all += bytes_of_file(file);
  }
  return all;
}

std::uint64_t RankWriter::bytes_left() const {
  return impl_->left;
}

void RankWriter::write_until_left(std::uint64_t bytes) {
  const at::NoGradGuard no_grad;
  while (impl_->left > bytes && impl_->file < impl_->plan->files.size()) {
    impl_->write_next();
  }
}

void RankWriter::stage(Staging& staging) {
  const at::NoGradGuard no_grad;
  std::vector<std::size_t> rest;
  std::size_t bytes = 0;
  for (std::size_t f = impl_->file; f < impl_->plan->files.size(); ++f) {
    const FilePlan& file = impl_->plan->files[f];
    const bool is_current = f == impl_->file && impl_->is_open;
    for (std::size_t i = is_current ? impl_->in_file : 0;
         i < file.writes.size();
         ++i) {
      rest.push_back(file.writes[i]);
      bytes += Staging::rounded(file.header.tensors[i].bytes);
    }
  }
  staging.reset(bytes);
  for (const std::size_t write : rest) {
    const at::Tensor& view = impl_->views[write];
    std::byte* const memory =
        staging.take(static_cast<std::size_t>(view.nbytes()));
    if (view.is_contiguous()) {
      // Past the caches: training needs them, and the copy is read later.
      comm::copy(memory, view.data_ptr(), view.nbytes(), true);
    } else {
      at::from_blob(memory, view.sizes(), view.options()).copy_(view);
    }
    impl_->staged[write] = memory;
  }
  impl_->views.clear(); // the user's memory is free to change
}

Written RankWriter::finish() {
  const at::NoGradGuard no_grad;
  while (impl_->file < impl_->plan->files.size()) {
    impl_->write_next();
  }
  impl_->stream.finish();
  fault_point("checkpoint.rank_done");
  for (auto& [tensor, sums] : impl_->sums) {
    impl_->written.sums.emplace_back(tensor, std::move(sums));
  }
  return std::move(impl_->written);
}

} // namespace argosy::checkpoint
