#pragma once

#include <memory>

#include "argosy/fs/stream.h"

// Streams that decompress another one. Both take files of several members, one
// after another, as `cat a.gz b.gz` gives. A file that ends too early or is
// damaged: FsError (Broken), with the byte up to which it was read. Not
// installed.
namespace argosy::fs {

std::unique_ptr<ByteStream> make_gzip_stream(
    std::unique_ptr<ByteStream> compressed);
std::unique_ptr<ByteStream> make_zstd_stream(
    std::unique_ptr<ByteStream> compressed);

} // namespace argosy::fs
