#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "argosy/fs/stream.h"

namespace argosy::fs {

// What a shell command writes to its standard output, given a stream as its
// standard input. A command that fails: SystemError at the end of its output,
// with the command, the stream's name and the status. Destroying the stream
// kills the command and what it started. `input_limit` is that of one read from
// the input. Not installed.
std::unique_ptr<ByteStream> make_command_stream(
    const std::string& command,
    std::unique_ptr<ByteStream> input,
    std::chrono::milliseconds input_limit);

} // namespace argosy::fs
