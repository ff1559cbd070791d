#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

// Data sets of R packages, read without R: an index (.rdx) and a file of
// compressed objects (.rdb) in R's serialization, in its XDR form.

// One object: a vector of numbers, of texts or of objects, with attributes.
struct RObject {
  std::vector<double> numbers;
  std::vector<std::string> texts;
  std::vector<RObject> items;
  std::map<std::string, RObject> attributes;

  // The item of that name, of a list or a data frame.
  const RObject& at(const std::string& name) const {
    const auto names = attributes.find("names");
    for (std::size_t i = 0; names != attributes.end() && i < items.size();
         ++i) {
      if (names->second.texts.at(i) == name) {
        return items[i];
      }
    }
    throw std::runtime_error("R data have no " + name);
  }
};

class RReader {
 public:
  explicit RReader(std::string bytes) : bytes_(std::move(bytes)) {}

  RObject read() {
    if (take(2) != "X\n") {
      throw std::runtime_error("no R data in XDR form");
    }
    const std::int32_t version = integer();
    take(8); // versions of R
    if (version == 3) {
      take(count()); // the name of the encoding
    }
    return object();
  }

 private:
  static constexpr int kSymbol = 1, kPairs = 2, kChars = 9, kLogicals = 10,
                       kIntegers = 13, kReals = 14, kTexts = 16, kList = 19,
                       kNil = 254, kReference = 255;

  std::string take(std::size_t size) {
    if (size > bytes_.size() - at_) {
      throw std::runtime_error("R data end too early");
    }
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }

  std::uint64_t big_endian(std::size_t size) {
    std::uint64_t value = 0;
    for (const char byte : take(size)) {
      value = value << 8 | static_cast<unsigned char>(byte);
    }
    return value;
  }
  std::int32_t integer() { return static_cast<std::int32_t>(big_endian(4)); }
  std::size_t count() {
    const std::int32_t value = integer();
    if (value < 0) {
      throw std::runtime_error(
          "R data have a vector of " + std::to_string(value));
    }
    return static_cast<std::size_t>(value);
  }
  double real() {
    const std::uint64_t bits = big_endian(8);
    double value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }

  RObject object() {
    const auto flags = static_cast<std::uint32_t>(integer());
    const int type = flags & 255;
    const bool has_attributes = flags & 0x200;
    RObject result;
    switch (type) {
      case kNil:
        return result;
      case kSymbol:
        symbols_.push_back(object());
        return symbols_.back();
      case kReference:
        return symbols_.at((flags >> 8 ? flags >> 8 : count()) - 1);
      case kPairs:
        return pairs(flags);
      case kChars: {
        const std::int32_t size = integer();
        result.texts = {size < 0 ? "" : take(static_cast<std::size_t>(size))};
        return result;
      }
      case kLogicals:
      case kIntegers:
        for (std::size_t i = count(); i > 0; --i) {
          result.numbers.push_back(integer());
        }
        break;
      case kReals:
        for (std::size_t i = count(); i > 0; --i) {
          result.numbers.push_back(real());
        }
        break;
      case kTexts:
        for (std::size_t i = count(); i > 0; --i) {
          result.texts.push_back(object().texts.at(0));
        }
        break;
      case kList:
        for (std::size_t i = count(); i > 0; --i) {
          result.items.push_back(object());
        }
        break;
      default:
        throw std::runtime_error(
            "R data of type " + std::to_string(type) + ", which is not read");
    }
    if (has_attributes) {
      result.attributes = object().attributes;
    }
    return result;
  }

  // Attributes: a chain of named objects.
  RObject pairs(std::uint32_t flags) {
    if (flags & 0x200) {
      object();
    }
    const std::string name = flags & 0x400 ? object().texts.at(0) : "";
    RObject value = object();
    RObject result = object();
    result.attributes[name] = std::move(value);
    return result;
  }

  std::string bytes_;
  std::size_t at_ = 0;
  std::vector<RObject> symbols_;
};

inline std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw std::runtime_error(path + " cannot be read");
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

// zlib's and gzip's form.
inline std::string inflate_all(const std::string& bytes) {
  z_stream stream{};
  inflateInit2(&stream, 15 + 32);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string result;
  int status = Z_OK;
  while (status == Z_OK) {
    char buffer[65536];
    stream.next_out = reinterpret_cast<Bytef*>(buffer);
    stream.avail_out = sizeof(buffer);
    status = inflate(&stream, Z_NO_FLUSH);
    result.append(buffer, sizeof(buffer) - stream.avail_out);
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END) {
    throw std::runtime_error("compressed R data are damaged");
  }
  return result;
}

// The data set of that name in a package's folder `data`.
inline RObject read_r_data(const std::string& folder, const std::string& name) {
  const RObject index =
      RReader(inflate_all(read_all(folder + "/Rdata.rdx"))).read();
  const RObject& place = index.at("variables").at(name);
  const auto first = static_cast<std::size_t>(place.numbers.at(0));
  const auto size = static_cast<std::size_t>(place.numbers.at(1));
  // Four bytes with the size come before the compressed ones.
  return RReader(
             inflate_all(
                 read_all(folder + "/Rdata.rdb").substr(first + 4, size - 4)))
      .read();
}
