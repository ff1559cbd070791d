#pragma once

#include <string>
#include <string_view>

#include "argosy/ps/table/row_batch.h"

namespace argosy::ps {

// Rows of a table as bytes, and back. Decoding throws InvalidArgument when
// lengths do not agree.
std::string encode_rows(const RowBatch& rows);
RowBatch decode_rows(std::string_view bytes);

} // namespace argosy::ps
