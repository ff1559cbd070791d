#pragma once

#include <argosy/argosy.h>
#include <argosy/data/tokenizer.h>

#include <iostream>
#include <string>

// What the hybrid examples share: the training text and the printed progress.
namespace argosy::examples {

// The King James Bible, tokenized with a vocabulary that is trained on it.
class Bible {
 public:
  explicit Bible(long vocab) : Bible(data::king_james_bible(), vocab) {}

  // Batches of this rank's share of the text. Call it after fleet::init().
  auto loader(long context, long batch_size) const {
    const data::TokenDataset texts(tokens_, context);
    return data::DataLoader(
        texts,
        data::DistributedBatchSampler(
            texts,
            {.batch_size = batch_size, .shuffle = true, .drop_last = true}),
        data::stack_windows);
  }

 private:
  Bible(const std::string& text, long vocab)
      : tokens_(data::Tokenizer::train(text, vocab).encode(text)) {}

  const data::Tokens tokens_;
};

// Rank 0 prints the loss of every 50th step, averaged over all ranks.
inline void tell(int step, const at::Tensor& loss) {
  const double sum = fleet::util().all_reduce(loss.item<double>());
  if (step % 50 == 0 && fleet::is_first_worker()) {
    std::cout << "step " << step << ": loss " << sum / fleet::worker_num()
              << std::endl;
  }
}

} // namespace argosy::examples
