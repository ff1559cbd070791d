#include "argosy/online/rethrow.h"

#include <c10/util/Exception.h>

#include "argosy/common/error.h"
#include "argosy/common/rank_label.h"

namespace argosy::online {

namespace {

// The message without the rank at its end, which the next error appends again.
std::string message_of(const std::exception& error) {
  std::string message = error.what();
  const std::string end = str("; rank ", rank_label());
  if (message.ends_with(end)) {
    message.resize(message.size() - end.size());
  }
  return message;
}

} // namespace

void rethrow_behind(const std::string& text) {
  try {
    throw;
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(str(text, ": ", message_of(error)));
  } catch (const TimeoutError& error) {
    throw TimeoutError(str(text, ": ", message_of(error)));
  } catch (const PeerLost& error) {
    throw PeerLost(str(text, ": ", message_of(error)));
  } catch (const StoreError& error) {
    throw StoreError(str(text, ": ", message_of(error)));
  } catch (const CheckpointError& error) {
    throw CheckpointError(str(text, ": ", message_of(error)));
  } catch (const SystemError& error) {
    throw SystemError(str(text, ": ", message_of(error)));
  } catch (const InternalError& error) {
    throw InternalError(str(text, ": ", message_of(error)));
  } catch (const c10::Error& error) {
    throw Error(str(text, ": ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    throw Error(str(text, ": ", message_of(error)));
  }
}

} // namespace argosy::online
