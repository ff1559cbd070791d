#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "argosy/ps/table/row_batch.h"
#include "argosy/ps/table/row_layout.h"

namespace argosy::ps {

// Appends "key v0 v1 ...\n": the fields of a row outside of a table, each in
// the shortest form that reads back to the same bits.
void append_row_text(
    const RowLayout& layout,
    std::uint64_t key,
    std::span<const float> words,
    std::string& out);

// Appends the row of a line (without its end) to a batch. Throws
// InvalidArgument if the line is no row of this layout.
void parse_row_text(
    const RowLayout& layout, std::string_view line, RowBatch& out);

// Appends a number in that form; parses one and removes it from the front of
// `text`, with blanks before it, or throws InvalidArgument.
void append_number(float value, std::string& out);
float take_number(std::string_view& text);

} // namespace argosy::ps
