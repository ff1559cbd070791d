#include "argosy/checkpoint/import/torch_file.h"

#include <string_view>
#include <utility>
#include <vector>

#include "argosy/checkpoint/import/little_endian.h"
#include "argosy/checkpoint/import/unpickler.h"
#include "argosy/checkpoint/import/zip_reader.h"
#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

[[noreturn]] void refuse_file(const Source& file, const std::string& what) {
  throw CheckpointError(
      str("[checkpoint.torch_file] ", file->name(), ": ", what));
}

// torch.save puts everything into one folder, whose name is of no matter.
const ZipEntry* find_pickle(const ZipReader& zip) {
  constexpr std::string_view kName = "/data.pkl";
  for (const ZipEntry& entry : zip.entries()) {
    const std::size_t slash = entry.name.find('/');
    if (slash != std::string::npos &&
        std::string_view(entry.name).substr(slash) == kName) {
      return &entry;
    }
  }
  return nullptr;
}

// Storages that a pickle mentions, in any order.
class StorageBytes {
 public:
  explicit StorageBytes(const PickleValue& root) { visit(root, 0); }

  const std::unordered_map<std::string, std::uint64_t>& by_key() const {
    return bytes_;
  }

 private:
  void visit(const PickleValue& value, int depth) {
    constexpr int kDeepestStorage = 100;
    constexpr int kMostVisits = 10'000'000;
    if (depth > kDeepestStorage || ++visits_ > kMostVisits) {
      throw CheckpointError(
          "[checkpoint.torch_file] values nested too deeply, or in themselves");
    }
    if (value.tensor) {
      bytes_[value.tensor->storage] = value.tensor->storage_bytes;
    }
    for (const PickleValue* item : value.items) {
      visit(*item, depth + 1);
    }
    if (value.state != nullptr) {
      visit(*value.state, depth + 1);
    }
  }

  std::unordered_map<std::string, std::uint64_t> bytes_;
  int visits_ = 0;
};

} // namespace

TorchFile::TorchFile(Source file) : file_(std::move(file)) {
  if (ZipReader::is_zip(*file_)) {
    read_zip();
  } else {
    read_legacy();
  }
}

TorchFile::~TorchFile() = default;
TorchFile::TorchFile(TorchFile&&) noexcept = default;

void TorchFile::read_zip() {
  zip_ = std::make_unique<ZipReader>(file_);
  const ZipEntry* entry = find_pickle(*zip_);
  if (entry == nullptr) {
    refuse_file(
        file_, "a zip file without data.pkl, expected one of torch.save");
  }
  prefix_ = entry->name.substr(0, entry->name.find('/') + 1);
  const ZipEntry* order = zip_->find(prefix_ + "byteorder");
  if (order != nullptr &&
      zip_->open_verified(*order)->read_all(64) != "little") {
    refuse_file(file_, "its numbers are big-endian, expected little-endian");
  }
  pickle_ = unpickle(zip_->open_verified(*entry));
}

// Pickles of a magic number, a version, what machine it was, and the object;
// then of the storages' keys in order; then for each its number of elements and
// its bytes.
void TorchFile::read_legacy() {
  constexpr std::int64_t kVersion = 1001;
  constexpr std::string_view kMagic =
      "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
  std::uint64_t offset = 0;
  const Pickle magic = unpickle(file_, offset);
  if (!magic.root->is(PickleKind::kLong) || magic.root->text != kMagic) {
    refuse_file(file_, "neither a zip file nor a pickle of torch.save");
  }
  const Pickle version = unpickle(file_, offset);
  if (version.root->integer != kVersion) {
    refuse_file(file_, "of an unknown version");
  }
  const Pickle machine = unpickle(file_, offset);
  const PickleValue* little = machine.root->find("little_endian");
  if (little != nullptr && little->integer == 0) {
    refuse_file(file_, "its numbers are big-endian, expected little-endian");
  }
  pickle_ = unpickle(file_, offset);
  const Pickle keys = unpickle(file_, offset);
  const StorageBytes sizes(*pickle_.root);
  for (const PickleValue* key : keys.root->items) {
    const auto found = sizes.by_key().find(key->text);
    if (found == sizes.by_key().end()) {
      refuse_file(file_, str("a storage ", key->text, " that no tensor has"));
    }
    constexpr std::uint64_t kCountBytes = 8;
    slice(file_, offset, kCountBytes); // there are so many
    storages_[key->text] = slice(file_, offset + kCountBytes, found->second);
    offset += kCountBytes + found->second;
  }
}

Source TorchFile::storage(const PickleTensor& tensor) {
  Source& source = storages_[tensor.storage];
  if (source == nullptr && zip_ != nullptr) {
    const ZipEntry* entry = zip_->find(prefix_ + "data/" + tensor.storage);
    if (entry != nullptr) {
      source = zip_->open(*entry);
    }
  }
  if (source == nullptr || source->size() < tensor.storage_bytes) {
    refuse_file(
        file_,
        str("storage ",
            tensor.storage,
            " has ",
            source == nullptr ? 0 : source->size(),
            " bytes, expected ",
            tensor.storage_bytes));
  }
  return source;
}

} // namespace argosy::checkpoint
