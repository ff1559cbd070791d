#include "argosy/checkpoint/convert/convert.h"
#include "argosy/checkpoint/convert/copy.h"
#include "argosy/checkpoint/convert/pickle_writer.h"
#include "argosy/checkpoint/convert/torch_archive.h"

namespace argosy::checkpoint {

std::uint64_t write_archive(
    fs::Writer& out,
    const std::string& pickle,
    const std::function<void(ZipWriter&)>& add) {
  ZipWriter zip(out);
  zip.add("archive/data.pkl", pickle);
  zip.add("archive/byteorder", "little");
  add(zip);
  zip.add("archive/version", "3\n");
  zip.finish();
  return zip.bytes();
}

void add_storage(
    ZipWriter& zip,
    const std::string& key,
    const SourceTensor& tensor,
    ChunkCopier& copier) {
  zip.begin("archive/data/" + key, bytes_of(tensor.info));
  copier.copy(
      tensor,
      dtensor::whole(tensor.info.shape),
      [&zip](std::int64_t, std::int64_t, std::span<std::byte> bytes) {
        zip.write(bytes);
      });
}

void write_torch(
    const TensorSet& set,
    const fs::Location& file,
    const CopyContext& context) {
  const auto [tensors, nested] = pickled_tensors(set);
  const auto out = create_file(file, set.tensor_bytes());
  ChunkCopier copier(context, set.tensor_bytes());
  copier.begin_file(fs::base_name(file.path));
  write_archive(
      *out,
      pickle_of_tensors(tensors, nested ? set.step : std::int64_t{-1}),
      [&](ZipWriter& zip) {
        for (std::size_t i = 0; i < set.tensors.size(); ++i) {
          add_storage(zip, std::to_string(i), set.tensors[i], copier);
        }
      });
  commit(*out);
}

} // namespace argosy::checkpoint
