#include "argosy/checkpoint/import/unpickler.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "argosy/checkpoint/import/little_endian.h"
#include "argosy/checkpoint/import/pickle_globals.h"
#include "argosy/checkpoint/import/pickle_stream.h"
#include "argosy/checkpoint/import/utf8.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::checkpoint {

namespace {

// The stack machine. Opcodes have the names of Python's pickletools.
class Machine {
 public:
  Machine(const Source& source, std::uint64_t offset) : in_(source, offset) {}

  Pickle run(std::uint64_t& end) {
    while (!done_) {
      at_ = in_.place();
      const std::uint8_t opcode = in_.byte();
      if (!constant(opcode) && !text(opcode) && !container(opcode) &&
          !memory(opcode) && !call(opcode)) {
        fail(
            str("opcode ",
                static_cast<int>(opcode),
                ", which checkpoints do not need; the file is damaged or no "
                "pickle of protocol 2 to 5"));
      }
    }
    end = in_.offset();
    return std::move(pickle_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw CheckpointError(
        str("[checkpoint.pickle] ", in_.file(), ", byte ", at_, ": ", what));
  }

  // Pushes what `make` returns; its refusals get the place in the file.
  template <typename Make>
  void call_at(const Make& make) {
    try {
      stack_.push_back(&make());
    } catch (const InvalidArgument& error) {
      fail(error.what());
    }
  }
  PickleValue& push(PickleKind kind) {
    PickleValue& value = pickle_.add(kind);
    stack_.push_back(&value);
    return value;
  }
  void push_integer(std::int64_t integer) {
    push(PickleKind::kInteger).integer = integer;
  }
  void push_text(PickleKind kind, std::string bytes) {
    if (kind == PickleKind::kString && !is_utf8(bytes)) {
      fail("a text that is not UTF-8");
    }
    push(kind).text = std::move(bytes);
  }

  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleValue& top() {
    if (stack_.size() <= floor()) {
      fail("the stack is empty; the file is damaged");
    }
    return *stack_.back();
  }
  PickleValue& pop() {
    PickleValue& value = top();
    stack_.pop_back();
    return value;
  }
  std::vector<const PickleValue*> pop_mark() {
    if (marks_.empty()) {
      fail("no mark on the stack; the file is damaged");
    }
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(floor());
    std::vector<const PickleValue*> values(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return values;
  }
  std::vector<const PickleValue*> pop_many(std::size_t count) {
    std::vector<const PickleValue*> values(count);
    for (std::size_t i = count; i-- > 0;) {
      values[i] = &pop();
    }
    return values;
  }

  void expect(const PickleValue& value, PickleKind kind) const {
    if (!value.is(kind)) {
      fail(
          str("found ",
              to_string(value.kind),
              ", expected ",
              to_string(kind),
              "; the file is damaged"));
    }
  }

  bool constant(std::uint8_t opcode);
  bool text(std::uint8_t opcode);
  bool container(std::uint8_t opcode);
  bool memory(std::uint8_t opcode);
  bool call(std::uint8_t opcode);

  void push_long(std::uint64_t bytes);
  void push_decimal();
  void push_float_line();
  void extend(PickleKind kind, const std::vector<const PickleValue*>& values);
  void remember(std::uint32_t key);
  void recall(std::uint32_t key);
  void push_global(const std::string& module, const std::string& name);
  void reduce();
  void make_object(bool keywords);
  void build();

  PickleStream in_;
  Pickle pickle_;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_; // sizes of the stack
  std::unordered_map<std::uint32_t, PickleValue*> memo_;
  std::uint64_t at_ = 0; // of the current opcode, in the file
  bool done_ = false;
};

// Little-endian two's complement.
void Machine::push_long(std::uint64_t bytes) {
  std::string digits = in_.take(bytes);
  if (digits.size() > sizeof(std::int64_t)) {
    push_text(PickleKind::kLong, std::move(digits));
    return;
  }
  const bool negative = !digits.empty() && (digits.back() & 0x80) != 0;
  digits.resize(sizeof(std::int64_t), negative ? '\xff' : '\0');
  push_integer(load_number<std::int64_t>(digits, 0));
}

// Text forms: "I01\n" is True, "L12L\n" an integer.
void Machine::push_decimal() {
  std::string line = in_.line();
  if (line == "00" || line == "01") {
    push(PickleKind::kBool).integer = line == "01" ? 1 : 0;
    return;
  }
  if (!line.empty() && line.back() == 'L') {
    line.pop_back();
  }
  const auto integer = parse_int(line);
  if (!integer) {
    fail("an integer that is none");
  }
  push_integer(*integer);
}

void Machine::push_float_line() {
  const auto number = parse_number(in_.line());
  if (!number) {
    fail("a number that is none");
  }
  push(PickleKind::kFloat).number = *number;
}

bool Machine::constant(std::uint8_t opcode) {
  switch (opcode) {
    case 0x80: { // PROTO
      const int protocol = in_.byte();
      if (protocol < 2 || protocol > 5) {
        fail(str("protocol ", protocol, ", expected 2 to 5"));
      }
      return true;
    }
    case 0x95: // FRAME
      in_.take(8);
      return true;
    case 'N':
      push(PickleKind::kNone);
      return true;
    case 0x88: // NEWTRUE
    case 0x89: // NEWFALSE
      push(PickleKind::kBool).integer = opcode == 0x88 ? 1 : 0;
      return true;
    case 'J': // BININT
      push_integer(in_.number<std::int32_t>());
      return true;
    case 'K': // BININT1
      push_integer(in_.byte());
      return true;
    case 'M': // BININT2
      push_integer(in_.number<std::uint16_t>());
      return true;
    case 0x8a: // LONG1
      push_long(in_.byte());
      return true;
    case 0x8b: // LONG4
      push_long(in_.number<std::uint32_t>());
      return true;
    case 'I':
    case 'L':
      push_decimal();
      return true;
    case 'F':
      push_float_line();
      return true;
    case 'G': { // BINFLOAT: big-endian
      std::string bytes = in_.take(8);
      std::reverse(bytes.begin(), bytes.end());
      push(PickleKind::kFloat).number = load_number<double>(bytes, 0);
      return true;
    }
    default:
      return false;
  }
}

bool Machine::text(std::uint8_t opcode) {
  const auto add = [this](PickleKind kind, std::uint64_t bytes) {
    push_text(kind, in_.take(bytes));
    return true;
  };
  switch (opcode) {
    case 'X': // BINUNICODE
      return add(PickleKind::kString, in_.number<std::uint32_t>());
    case 0x8c: // SHORT_BINUNICODE
      return add(PickleKind::kString, in_.byte());
    case 0x8d: // BINUNICODE8
      return add(PickleKind::kString, in_.number<std::uint64_t>());
    case 'V': // UNICODE
      push_text(PickleKind::kString, in_.line());
      return true;
    case 'T': // BINSTRING: Python 2's str
      return add(PickleKind::kBytes, in_.number<std::uint32_t>());
    case 'U': // SHORT_BINSTRING
    case 'C': // SHORT_BINBYTES
      return add(PickleKind::kBytes, in_.byte());
    case 'B': // BINBYTES
      return add(PickleKind::kBytes, in_.number<std::uint32_t>());
    case 0x8e: // BINBYTES8
    case 0x96: // BYTEARRAY8
      return add(PickleKind::kBytes, in_.number<std::uint64_t>());
    default:
      return false;
  }
}

void Machine::extend(
    PickleKind kind, const std::vector<const PickleValue*>& values) {
  PickleValue& target = top();
  if (kind == PickleKind::kDict && target.is(PickleKind::kObject)) {
    return; // a mapping with attributes of its own: not needed
  }
  expect(target, kind);
  if (kind == PickleKind::kDict && values.size() % 2 != 0) {
    fail("a key without a value; the file is damaged");
  }
  target.items.insert(target.items.end(), values.begin(), values.end());
}

bool Machine::container(std::uint8_t opcode) {
  const auto collect = [this](PickleKind kind) {
    auto values = pop_mark();
    push(kind).items = std::move(values);
    return true;
  };
  const auto add = [this](PickleKind kind, bool marked, std::size_t count) {
    const auto values = marked ? pop_mark() : pop_many(count);
    extend(kind, values);
    return true;
  };
  switch (opcode) {
    case '(':
      marks_.push_back(stack_.size());
      return true;
    case ']':
      push(PickleKind::kList);
      return true;
    case '}':
      push(PickleKind::kDict);
      return true;
    case ')':
      push(PickleKind::kTuple);
      return true;
    case 0x8f: // EMPTY_SET
      push(PickleKind::kSet);
      return true;
    case 't':
      return collect(PickleKind::kTuple);
    case 'l':
      return collect(PickleKind::kList);
    case 0x91: // FROZENSET
      return collect(PickleKind::kSet);
    case 0x85: // TUPLE1
    case 0x86:
    case 0x87: {
      auto values = pop_many(opcode - 0x84u);
      push(PickleKind::kTuple).items = std::move(values);
      return true;
    }
    case 'a':
      return add(PickleKind::kList, false, 1);
    case 'e':
      return add(PickleKind::kList, true, 0);
    case 's':
      return add(PickleKind::kDict, false, 2);
    case 'u':
      return add(PickleKind::kDict, true, 0);
    case 0x90: // ADDITEMS
      return add(PickleKind::kSet, true, 0);
    default:
      return false;
  }
}

void Machine::remember(std::uint32_t key) {
  memo_[key] = &top();
}

void Machine::recall(std::uint32_t key) {
  const auto found = memo_.find(key);
  if (found == memo_.end()) {
    fail(str("refers to value ", key, ", which is not there"));
  }
  stack_.push_back(found->second);
}

bool Machine::memory(std::uint8_t opcode) {
  switch (opcode) {
    case 'q': // BINPUT
      remember(in_.byte());
      return true;
    case 'r': // LONG_BINPUT
      remember(in_.number<std::uint32_t>());
      return true;
    case 0x94: // MEMOIZE
      remember(static_cast<std::uint32_t>(memo_.size()));
      return true;
    case 'h': // BINGET
      recall(in_.byte());
      return true;
    case 'j': // LONG_BINGET
      recall(in_.number<std::uint32_t>());
      return true;
    case '0': // POP: a mark goes if nothing is above it
      if (!marks_.empty() && stack_.size() == floor()) {
        marks_.pop_back();
      } else {
        pop();
      }
      return true;
    case '1': // POP_MARK
      pop_mark();
      return true;
    case '2': // DUP
      stack_.push_back(&top());
      return true;
    case '.':
      pickle_.root = &pop();
      done_ = true;
      return true;
    default:
      return false;
  }
}

void Machine::push_global(const std::string& module, const std::string& name) {
  constexpr std::size_t kLongest = 1000;
  const bool possible = module.size() + name.size() < kLongest;
  // Protocol 2 has the names of Python 2.
  const std::string owner =
      module == "__builtin__" ? std::string("builtins") : module;
  const std::string global = possible ? owner + "." + name : module;
  if (!possible || !is_known_global(global)) {
    fail(
        str("the pickle names ",
            global.substr(0, 200),
            ", which is not in the list of harmless classes and functions. It "
            "was not run. Save only tensors, numbers, texts, lists and dicts "
            "(a state_dict), and import that"));
  }
  push_text(PickleKind::kGlobal, global);
}

void Machine::reduce() {
  const PickleValue& arguments = pop();
  const PickleValue& function = pop();
  expect(arguments, PickleKind::kTuple);
  expect(function, PickleKind::kGlobal);
  call_at([&]() -> PickleValue& {
    return call_global(pickle_, function.text, arguments.items);
  });
}

void Machine::make_object(bool keywords) {
  if (keywords) {
    expect(pop(), PickleKind::kDict);
  }
  reduce();
}

// Dicts have attributes (`_metadata` of a state_dict) and so have tensors and
// parameters; only objects need theirs.
void Machine::build() {
  const PickleValue& state = pop();
  PickleValue& target = top();
  if (target.is(PickleKind::kObject)) {
    target.state = &state;
  } else if (
      !target.is(PickleKind::kDict) && !target.is(PickleKind::kTensor) &&
      !target.is(PickleKind::kSet)) {
    fail(str("attributes of ", to_string(target.kind)));
  }
}

bool Machine::call(std::uint8_t opcode) {
  switch (opcode) {
    case 'c': { // GLOBAL
      const std::string module = in_.line();
      push_global(module, in_.line());
      return true;
    }
    case 0x93: { // STACK_GLOBAL
      const PickleValue& name = pop();
      const PickleValue& module = pop();
      expect(name, PickleKind::kString);
      expect(module, PickleKind::kString);
      push_global(module.text, name.text);
      return true;
    }
    case 'R':
      reduce();
      return true;
    case 0x81: // NEWOBJ
      make_object(false);
      return true;
    case 0x92: // NEWOBJ_EX
      make_object(true);
      return true;
    case 'b':
      build();
      return true;
    case 'Q': // BINPERSID
      call_at(
          [this]() -> PickleValue& { return storage_of_id(pickle_, pop()); });
      return true;
    default:
      return false;
  }
}

} // namespace

Pickle unpickle(const Source& source, std::uint64_t& offset) {
  return Machine(source, offset).run(offset);
}

Pickle unpickle(const Source& source) {
  std::uint64_t offset = 0;
  return unpickle(source, offset);
}

} // namespace argosy::checkpoint
