#pragma once

#include <string>
#include <string_view>

#include "argosy/checkpoint/import/little_endian.h"
#include "argosy/checkpoint/tensor_info.h"

namespace argosy::checkpoint {

// Emits opcodes of Python's pickle, protocol 2.
class PickleOutput {
 public:
  PickleOutput() { out_ = "\x80\x02"; }

  void opcode(char code) { out_.push_back(code); }
  void global(std::string_view module, std::string_view name) {
    out_.append("c").append(module).append("\n").append(name).append("\n");
  }
  void text(std::string_view text) {
    opcode('X');
    append_number(out_, static_cast<std::uint32_t>(text.size()));
    out_.append(text);
  }
  void boolean(bool value) { opcode(value ? '\x88' : '\x89'); }
  void none() { opcode('N'); }
  void integer(std::int64_t value) {
    opcode('\x8a'); // LONG1
    opcode(8);
    append_number(out_, value);
  }
  void tuple(const Shape& values) {
    opcode('(');
    for (const std::int64_t value : values) {
      integer(value);
    }
    opcode('t');
  }
  std::string finish() {
    opcode('.');
    return std::move(out_);
  }

 private:
  std::string out_;
};

} // namespace argosy::checkpoint
