#include "argosy/training/step_errors.h"

#include "argosy/common/error.h"
#include "argosy/common/rank_label.h"
#include "argosy/data/sampler_check.h"

namespace argosy::training {

namespace {

std::string with_advice(
    const std::exception& error, const std::string& advice) {
  const std::string batches = data::uneven_batches_of_world();
  return str(
      without_rank_label(error.what()),
      batches.empty() ? ". If a rank ran out of batches before the others: "
                      : str(". A rank ran out of batches: ", batches, "; "),
      advice);
}

} // namespace

void in_each_step(
    const std::function<void()>& body, const std::string& advice) {
  try {
    body();
  } catch (const PeerLost& error) {
    throw PeerLost(with_advice(error, advice));
  } catch (const TimeoutError& error) {
    throw TimeoutError(with_advice(error, advice));
  } catch (const InvalidArgument& error) {
    const std::string text = error.what();
    if (text.find("ranks disagree about") == std::string::npos) {
      throw;
    }
    throw InvalidArgument(with_advice(error, advice));
  }
}

} // namespace argosy::training
