#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>

#include "argosy/comm/message/board.h"

namespace c10d {
class Store;
}

namespace argosy::comm::message {

// A board in the store of a group, whose keys begin with "board/".
std::shared_ptr<Board> make_store_board(
    const c10::intrusive_ptr<c10d::Store>& store);

} // namespace argosy::comm::message
