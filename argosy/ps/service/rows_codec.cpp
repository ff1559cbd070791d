#include "argosy/ps/service/rows_codec.h"

#include "argosy/ps/service/bytes.h"

namespace argosy::ps {

namespace {

template <typename T>
void append_all(std::string& bytes, const std::vector<T>& values) {
  bytes.append(
      reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

template <typename T>
void read_all(ByteReader& in, std::vector<T>& values, std::uint64_t count) {
  ARGOSY_CHECK(
      count <= in.rest().size() / sizeof(T),
      "[ps.rows] {} elements announced, but {} bytes follow",
      count,
      in.rest().size());
  values.resize(count);
  const std::string_view raw = in.raw(count * sizeof(T));
  std::memcpy(values.data(), raw.data(), raw.size());
}

} // namespace

std::string encode_rows(const RowBatch& rows) {
  ByteWriter out;
  out.put(static_cast<std::uint64_t>(rows.keys.size()))
      .put(static_cast<std::uint64_t>(rows.words.size()));
  std::string bytes = out.take();
  append_all(bytes, rows.keys);
  append_all(bytes, rows.ends);
  append_all(bytes, rows.words);
  return bytes;
}

RowBatch decode_rows(std::string_view bytes) {
  ByteReader in(bytes, "rows");
  const auto num_keys = in.get<std::uint64_t>();
  const auto num_words = in.get<std::uint64_t>();
  RowBatch rows;
  read_all(in, rows.keys, num_keys);
  read_all(in, rows.ends, num_keys);
  read_all(in, rows.words, num_words);
  in.end();
  std::size_t before = 0;
  for (const std::size_t end : rows.ends) {
    ARGOSY_CHECK(
        end >= before && end <= rows.words.size(),
        "[ps.rows] a row ends at word {} of {}",
        end,
        rows.words.size());
    before = end;
  }
  return rows;
}

} // namespace argosy::ps
