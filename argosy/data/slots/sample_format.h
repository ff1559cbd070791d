#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "argosy/data/slots/multi_slot.h"
#include "argosy/data/slots/records.h"

namespace argosy::fs {
class ByteStream;
} // namespace argosy::fs

// What the files of a slot dataset have in them.
namespace argosy::data {

// Of formats whose fields have names: a slot takes the field of its own name,
// and other fields are ignored.
struct FieldOptions {
  std::string id = {};      // the field that has the sample's id; empty: none
  bool allow_empty = false; // a slot may have no values; refused otherwise
  // Words of id slots become hash_of_word(). Refused otherwise.
  bool hash_words = false;
};

// Comma-separated values, as RFC 4180 has them: fields may stand in quotes, and
// hold commas, quotes (doubled) and line breaks then. Empty lines are skipped.
struct CsvOptions {
  FieldOptions fields = {};
  char delimiter = ',';
  char value_separator = '|'; // between the values of one field
  // Names of the columns; empty: they stand in the first line of each file.
  std::vector<std::string> columns = {};
};

// A JSON object a line. Values are numbers, or lists of them at any depth. Null
// is no value. Empty lines are skipped.
struct JsonLinesOptions {
  FieldOptions fields = {};
};

// Records of TensorFlow, each a tf.train.Example. All checksums are checked.
struct TfRecordOptions {
  FieldOptions fields = {};
};

using FormatOptions = std::
    variant<MultiSlotOptions, CsvOptions, JsonLinesOptions, TfRecordOptions>;

// Why a sample cannot be read.
struct SampleFault {
  std::string place; // "line 3, column 7"
  std::string what;
};

// The samples of one file, one after another.
class SampleSource {
 public:
  enum class Step { Sample, Bad, End };

  virtual ~SampleSource() = default;

  // Adds the next sample to `into`; or adds nothing, and either says why, or
  // the file has ended. Throws what reading throws, and FsError when what
  // follows cannot be found in a damaged file.
  virtual Step next(Records& into, SampleFault& fault) = 0;
};

// Thread-safe.
class SampleFormat {
 public:
  virtual ~SampleFormat() = default;

  virtual const RecordLayout& layout() const = 0;
  // Reads a file, of which each read may take `limit`. The format must outlive
  // the result.
  virtual std::unique_ptr<SampleSource> open(
      std::unique_ptr<fs::ByteStream> file,
      std::chrono::milliseconds limit) const = 0;
};

// Throws InvalidArgument.
std::shared_ptr<const SampleFormat> make_format(
    const Slots& slots, const FormatOptions& options);

} // namespace argosy::data
