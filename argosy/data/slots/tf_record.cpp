#include "argosy/data/slots/tf_record.h"

#include <cstring>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/data/slots/buffered_stream.h"
#include "argosy/data/slots/field_format.h"
#include "argosy/data/slots/tf_example.h"
#include "argosy/fs/error.h"
#include "argosy/observe/crc32c.h"

namespace argosy::data {

namespace {

constexpr std::size_t kChecksum = sizeof(std::uint32_t);
constexpr std::size_t kLength = sizeof(std::uint64_t);
constexpr std::size_t kHead = kLength + kChecksum;
constexpr std::size_t kLongest = std::size_t{64} << 20;

template <typename T>
T number_at(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value)); // little endian, as this machine
  return value;
}

// A record: its length, the checksum of these bytes, data, its checksum.
class TfRecordSource final : public SampleSource {
 public:
  TfRecordSource(
      const RecordLayout& layout,
      const TfRecordOptions& options,
      std::unique_ptr<fs::ByteStream> file,
      std::chrono::milliseconds limit)
      : stream_(std::move(file), limit, kLongest + kHead + kChecksum),
        sample_(layout, options.fields) {}

  Step next(Records& into, SampleFault& fault) override {
    offset_ += taken_;
    stream_.take(std::exchange(taken_, 0));
    if (!stream_.reach(1)) {
      return Step::End;
    }
    ++record_;
    const std::string_view data = read_record();
    taken_ = kHead + data.size() + kChecksum;
    const auto checksum = number_at<std::uint32_t>(data.data() + data.size());
    if (observe::masked_crc32c(data) != checksum) {
      fault = {place(kHead), "the checksum of the data is another one"};
      return Step::Bad;
    }
    auto wrong = add_tf_example(data, sample_, into);
    if (!wrong) {
      return Step::Sample;
    }
    fault = {place(kHead + wrong->offset), std::move(wrong->what)};
    return Step::Bad;
  }

 private:
  // The data, in the stream's buffer, and a checksum behind it.
  std::string_view read_record() {
    reach(kHead);
    const char* const head = stream_.left().data();
    const auto length = number_at<std::uint64_t>(head);
    if (observe::masked_crc32c({head, kLength}) !=
        number_at<std::uint32_t>(head + kLength)) {
      fail("the checksum of the length is another one");
    }
    if (length > kLongest) {
      fail(str("a length of ", length, " bytes, expected at most ", kLongest));
    }
    reach(kHead + length + kChecksum);
    return {stream_.left().data() + kHead, length};
  }

  void reach(std::size_t bytes) {
    if (!stream_.reach(bytes)) {
      fail(
          str("the file ends in the middle of it, ",
              bytes - stream_.left().size(),
              " bytes are missing"));
    }
  }

  std::string place(std::size_t offset) const {
    return str("record ", record_, ", byte ", offset_ + offset);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw fs::FsError(
        fs::Failure::Broken,
        str("[data.tf_record] ", stream_.name(), ", ", place(0), ": ", what));
  }

  BufferedStream stream_;
  FieldSample sample_;
  std::int64_t record_ = 0;  // from 1
  std::uint64_t offset_ = 0; // of the record in the file
  std::size_t taken_ = 0;    // bytes of the record
};

} // namespace

std::shared_ptr<const SampleFormat> make_tf_record_format(
    const Slots& slots, const TfRecordOptions& options) {
  return std::make_shared<FieldFormat<TfRecordSource, TfRecordOptions>>(
      slots, options);
}

} // namespace argosy::data
