// CSV, JSON lines and TFRecord: what samples come of them, and what is wrong
// with a file.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"
#include "argosy/data/slots/slot_files.h"
#include "argosy/data/slots/word_hash.h"
#include "argosy/fs/error.h"
#include "argosy/observe/event_record.h"
#include "tests/data/record_text.h"
#include "tests/support/command.h"
#include "tests/support/mutations.h"
#include "tests/support/thrown_by.h"

namespace argosy::data {
namespace {

using argosy::testing::read_corpus;
using argosy::testing::run_command;
using argosy::testing::thrown_by;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SampleFormats : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    write_file(dir_.path() / name, content);
    return (dir_.path() / name).string();
  }

  // The samples of a file. Bad ones: see bad().
  std::vector<std::string> samples_in(
      const std::string& file,
      const FormatOptions& options,
      const Slots& slots = some_slots(),
      const SlotFileOptions& how = {}) {
    const auto format = make_format(slots, options);
    const std::vector<std::string> files = {file};
    const std::atomic<bool> stop{false};
    BadLines bad_lines(-1);
    const Records records =
        load_slot_files({files, *format, how, bad_lines, stop});
    bad_.clear();
    for (const std::string& text : bad_lines.samples()) {
      EXPECT_TRUE(text.starts_with(file + ", ")) << text;
      bad_.push_back(text.substr(file.size() + 2));
    }
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < records.size(); ++i) {
      texts.push_back(text_of(format->layout(), records[i]));
    }
    return texts;
  }
  std::vector<std::string> samples_of(
      const std::string& content,
      const FormatOptions& options,
      const Slots& slots = some_slots()) {
    return samples_in(write("samples", content), options, slots);
  }
  // Places and reasons of the last file.
  const std::vector<std::string>& bad() const { return bad_; }

  TempDir dir_;

 private:
  std::vector<std::string> bad_;
};

// ---- CSV --------------------------------------------------------------------

TEST_F(SampleFormats, CsvColumnsAreFoundByTheirNames) {
  const CsvOptions with_id{.fields = {.id = "line"}};
  EXPECT_THAT(
      samples_of(
          "\xef\xbb\xbfplace,line,label,country,price,user\r\n"
          "1|2,a-1,0.5,de,1.25|-3e2,7|18446744073709551615\r\n"
          "\r\n"
          "3|4,\"b, \"\"2\"\"\",1,\"two\nlines\",0,8",
          with_id),
      ElementsAre(
          "a-1: label=0.5 user=7,18446744073709551615 price=1.25,-300 "
          "place=1,2",
          "b, \"2\": label=1 user=8 price=0 place=3,4"));
  EXPECT_THAT(bad(), IsEmpty());
  EXPECT_THAT(
      samples_of(
          "1;7;2;5 6\n",
          CsvOptions{
              .delimiter = ';',
              .value_separator = ' ',
              .columns = {"label", "user", "price", "place"}}),
      ElementsAre("label=1 user=7 price=2 place=5,6"));
  EXPECT_THAT(samples_of("", CsvOptions()), IsEmpty());
  EXPECT_THAT(samples_of("label,user,price,place", CsvOptions()), IsEmpty());
}

TEST_F(SampleFormats, CsvErrorsHaveLineAndColumn) {
  EXPECT_THAT(
      samples_of(
          "label,user,price,place\n"
          "1,7,2,5|6\n"
          "1,x,2,5|6\n"
          "1,7,2,5|-6\n"
          "1,7,2\n"
          "1,,2,5|6\n"
          "1,7,2,5\n"
          "0,8,inf,5|6\n"
          "0,8,3,5|6\n",
          CsvOptions()),
      ElementsAre(
          "label=1 user=7 price=2 place=5,6",
          "label=0 user=8 price=3 place=5,6"));
  EXPECT_THAT(
      bad(),
      ElementsAre(
          "line 3, column 3: slot \"user\": \"x\", expected an integer from 0 "
          "to 2^64-1 (hash_words lets words pass)",
          HasSubstr("line 4, column 9: slot \"place\": \"-6\""),
          "line 5, column 5: 3 fields, expected 4",
          "line 6, column 3: slot \"user\": no values, expected at least 1 "
          "(allow_empty lets them pass)",
          "line 7, column 7: slot \"place\": 1 values, expected 2",
          "line 8, column 5: slot \"price\": \"inf\", expected a finite "
          "number"));
  EXPECT_THAT(
      samples_of(
          "label,user,price,place\n1,,,5|6\n",
          CsvOptions{.fields = {.allow_empty = true}}),
      ElementsAre("label=1 user= price= place=5,6"));
}

// The lines behind a quote too many are read as if it were not there.
TEST_F(SampleFormats, CsvLosesOneLineToAWrongQuote) {
  EXPECT_THAT(
      samples_of(
          "label,user,price,place,size\n"
          "1,1,1,1|1,\"a\nb\"\n"
          "1,2,1,1|1,5\"\n"
          "1,3,1,1|1,\n"
          "1,4,1,1|1,\"a\"b\n"
          "1,5,1,1|1,\"\n"
          "1,6,1,1|1,x\n",
          CsvOptions()),
      ElementsAre(
          HasSubstr("user=1"), HasSubstr("user=3"), HasSubstr("user=6")));
  EXPECT_THAT(
      bad(),
      ElementsAre(
          HasSubstr("line 4, column 12: a quote in a field"),
          "line 6, column 14: text behind a quoted field, expected its end",
          "line 7, column 11: a quote that is not closed"));
}

TEST_F(SampleFormats, CsvWithoutItsColumnsIsRefused) {
  const auto refused = [&](const std::string& content,
                           const CsvOptions& options) {
    return thrown_by<InvalidArgument>([&] { samples_of(content, options); });
  };
  EXPECT_THAT(
      refused("label,users,price,place\n", CsvOptions()),
      AllOf(
          HasSubstr("samples: no column \"user\" (did you mean \"users\"?)"),
          HasSubstr("label, users, price, place")));
  EXPECT_THAT(
      refused("label,user,price,place\n", {.fields = {.id = "line"}}),
      HasSubstr("no column \"line\""));
  EXPECT_THAT(
      refused("label,user,price,place,user\n", CsvOptions()),
      HasSubstr("two columns are called \"user\""));
  EXPECT_THAT(
      refused("label,\"user\"s\n", CsvOptions()),
      HasSubstr("line 1, column 13: text behind"));
  EXPECT_THAT(
      refused("", {.delimiter = '|'}), HasSubstr("delimiter '|' and value"));
}

// ---- JSON -------------------------------------------------------------------

TEST_F(SampleFormats, JsonLinesMayHaveFieldsInAnyOrder) {
  const JsonLinesOptions with_id{.fields = {.id = "line", .allow_empty = true}};
  EXPECT_THAT(
      samples_of(
          "{\"place\": [[1], [2]], \"user\": [7, 18446744073709551615], "
          "\"other\": {\"user\": [[\"x\"]]}, \"label\": 0.5, \"line\": "
          "\"a\\u00e4\", \"price\": [1.25, -300]}\r\n"
          "\n"
          "{\"line\": 5, \"user\": null, \"label\": -1, \"place\": [3, 4]}",
          with_id),
      ElementsAre(
          "a\u00e4: label=0.5 user=7,18446744073709551615 price=1.25,-300 "
          "place=1,2",
          "5: label=-1 user= price= place=3,4"));
  EXPECT_THAT(bad(), IsEmpty());
}

TEST_F(SampleFormats, JsonErrorsHaveLineAndColumn) {
  const auto line = [](const std::string& user) {
    return str("{\"label\": 1, \"price\": 2, \"place\": [1, 2]", user, "}\n");
  };
  EXPECT_THAT(
      samples_of(
          line(", \"user\": 7") + line("") + line(", \"user\": 1.5") +
              line(", \"user\": -1") + line(", \"user\": [1, [null]]") +
              line(", \"user\": {}") + line(", \"user\": true") +
              line(", \"user\": 1, \"user\": 2") + line(", \"user\": 1e") +
              "[1]\n",
          JsonLinesOptions()),
      ElementsAre("label=1 user=7 price=2 place=1,2"));
  const std::string user = "column 43: slot \"user\": ";
  EXPECT_THAT(
      bad(),
      ElementsAre(
          HasSubstr("line 2, column 1: slot \"user\": no values"),
          HasSubstr("line 3, " + user + "1.5, expected an integer"),
          HasSubstr("line 4, " + user + "-1, expected an integer"),
          HasSubstr("line 5, " + user + "null, expected"),
          HasSubstr("line 6, " + user + "an object, expected"),
          HasSubstr("line 7, " + user + "true, expected"),
          "line 8, column 43: field \"user\" is there twice",
          AllOf(HasSubstr("line 9, column 53: no JSON"), HasSubstr("number")),
          "line 10, column 1: no object, expected one a line"));
}

// ---- TFRecord ---------------------------------------------------------------

std::string framed(const std::vector<std::string>& records) {
  std::string bytes;
  for (const std::string& record : records) {
    bytes += observe::framed(record);
  }
  return bytes;
}

std::vector<std::string> examples() {
  return read_corpus(
      std::string(ARGOSY_SOURCE_DIR) + "/tests/data/corpus/tf_examples.hex",
      true);
}

const TfRecordOptions kWithId{.fields = {.id = "line"}};

// Oracle: the bytes were made by protoc.
TEST_F(SampleFormats, TfRecordsHaveExamples) {
  const std::string first =
      "a-1: label=0.5 user=7,8,9223372036854775807 price=1.25,-300 "
      "place=1,300";
  EXPECT_THAT(
      samples_of(
          framed(examples()),
          TfRecordOptions{
              {.id = "line", .allow_empty = true, .hash_words = true}}),
      ElementsAre(
          first,
          first,
          "42: label=-1 user=18446744073709551615,0 price=3 place=5,6",
          str("c: label=1 user=",
              hash_of_word("mobile"),
              ",",
              hash_of_word("de"),
              " price= place=0,0")));
  EXPECT_THAT(
      bad(), ElementsAre(HasSubstr("slot \"label\": 0 values, expected 1")));
  samples_of(framed({examples()[3]}), kWithId);
  EXPECT_THAT(
      bad(),
      ElementsAre(HasSubstr(
          "slot \"user\": \"mobile\", expected an integer from 0 to 2^64-1")));
}

// Oracle: a program that computes the checksums bit by bit.
TEST_F(SampleFormats, TfRecordsHaveMaskedChecksums) {
  EXPECT_EQ(to_hex(observe::framed("")), "000000000000000029039807d8ea82a2");
}

TEST_F(SampleFormats, TfRecordsAreCountedWhenTheirDataIsBad) {
  std::string bytes = framed({examples()[0], examples()[0], examples()[2]});
  const std::size_t second = 16 + examples()[0].size();
  bytes[second + 12 + 20] ^= 1;
  EXPECT_EQ(samples_of(bytes, kWithId).size(), 2U);
  EXPECT_THAT(
      bad(),
      ElementsAre(
          str("record 2, byte ",
              second + 12,
              ": the checksum of the data is another one")));
  // Good checksums, no example.
  EXPECT_EQ(
      samples_of(framed({"\x0a\x7f", examples()[0]}), kWithId).size(), 1U);
  EXPECT_THAT(
      bad(), ElementsAre("record 1, byte 12: no field of a tf.train.Example"));
}

// Where the next record begins is not known then.
TEST_F(SampleFormats, TfRecordsThatAreCutOrDamagedAreErrors) {
  const std::string good = framed({examples()[0], examples()[2]});
  const auto error_of = [&](const std::string& bytes) {
    return thrown_by<fs::FsError>([&] { samples_of(bytes, kWithId); });
  };
  EXPECT_THAT(
      error_of(good.substr(0, good.size() - 1)),
      HasSubstr("samples, record 2, byte 143: the file ends in the middle of "
                "it, 1 bytes are missing"));
  EXPECT_THAT(error_of(good.substr(0, 5)), HasSubstr("record 1, byte 0"));
  std::string other = good;
  other[0] ^= 1;
  EXPECT_THAT(
      error_of(other), HasSubstr("the checksum of the length is another one"));
}

// ---- All --------------------------------------------------------------------

TEST_F(SampleFormats, WordsBecomeHashes) {
  const std::string expected =
      str("user=", hash_of_word("mobile"), ",", hash_of_word("7"));
  const Slots user = {{"user"}};
  EXPECT_THAT(
      samples_of("user\nmobile|7\n", CsvOptions{{.hash_words = true}}, user),
      ElementsAre(expected));
  EXPECT_THAT(
      samples_of(
          "{\"user\": [\"mobile\", \"7\"]}\n",
          JsonLinesOptions{{.hash_words = true}},
          user),
      ElementsAre(expected));
  EXPECT_EQ(hash_of_word(""), 0xcbf29ce484222325U); // as published
  EXPECT_EQ(hash_of_word("foobar"), 0x85944171f73967e8U);
  EXPECT_THAT(
      thrown_by<InvalidArgument>(
          [&] { make_format(user, JsonLinesOptions{{.id = "user"}}); }),
      HasSubstr("field \"user\" is a slot and the sample's id"));
}

TEST_F(SampleFormats, FilesMayBeCompressedOrGoThroughACommand) {
  const struct {
    std::string content;
    FormatOptions options;
  } formats[] = {
      {"label,user,price,place,line\n0.5,7,2,1|2,a\n",
       CsvOptions{.fields = {.id = "line"}}},
      {"{\"label\":0.5,\"user\":7,\"price\":2,\"place\":[1,2],\"line\":\"a\"}",
       JsonLinesOptions{.fields = {.id = "line"}}},
      {framed({examples()[0]}), kWithId},
  };
  for (const auto& [content, options] : formats) {
    const std::string file = write("file", content);
    const auto expected = samples_in(file, options);
    EXPECT_EQ(expected.size(), 1U);
    for (const char* const command : {"gzip", "zstd -q"}) {
      const std::string packed = file + (command[0] == 'g' ? ".gz" : ".zst");
      ASSERT_TRUE(run_command(str(command, " -kf ", file)).status.success());
      EXPECT_EQ(samples_in(packed, options), expected);
      const std::string bytes = *read_file(packed);
      write_file(packed, bytes.substr(0, bytes.size() - 5));
      EXPECT_THAT(
          thrown_by<fs::FsError>([&] { samples_in(packed, options); }),
          AllOf(HasSubstr(packed), HasSubstr("ends in the middle")));
    }
    const std::string shifted = write("shifted", "xyz" + content);
    EXPECT_EQ(
        samples_in(
            shifted, options, some_slots(), {.pipe_command = "tail -c +4"}),
        expected);
  }
}

} // namespace
} // namespace argosy::data
