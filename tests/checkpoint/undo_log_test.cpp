#include "argosy/checkpoint/undo_log.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "argosy/common/error.h"

namespace argosy::checkpoint {
namespace {

struct Memory {
  std::string text = "0123456789";
  UndoLog log;

  explicit Memory(std::size_t room) { log.reset(room); }
  void write(std::size_t at, const std::string& value) {
    log.keep(reinterpret_cast<std::byte*>(text.data()) + at, value.size());
    text.replace(at, value.size(), value);
  }
};

// Also where ranges overlap, in any order.
TEST(UndoLog, BringsBackWhatWasThere) {
  Memory memory(12);
  memory.write(6, "abc");
  memory.write(0, "de");
  memory.write(2, "fg"); // continues the one before
  memory.write(1, "hij");
  memory.write(8, "kl");
  EXPECT_EQ(memory.text, "dhij45abkl");
  memory.log.restore();
  EXPECT_EQ(memory.text, "0123456789");
  memory.write(3, "mnop"); // the room is free again
  memory.log.restore();
  memory.log.restore(); // nothing is left
  EXPECT_EQ(memory.text, "0123456789");
}

TEST(UndoLog, KeepsWhatThereIsRoomFor) {
  Memory memory(4);
  memory.write(0, "abcd");
  EXPECT_THROW(memory.write(4, "e"), InternalError);
  memory.log.reset(0);
  memory.log.restore();
  EXPECT_EQ(memory.text, "abcd456789");
}

} // namespace
} // namespace argosy::checkpoint
