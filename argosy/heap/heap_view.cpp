#include "argosy/heap/heap_view.h"

#include <sys/mman.h>

#include <map>
#include <mutex>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::heap {

namespace {

// The views of this process by description; sharing them fills page tables
// once.
class OpenViews {
 public:
  template <typename Open>
  std::shared_ptr<const HeapView> find(
      const std::string& description, const Open& open) {
    const std::lock_guard lock(mutex_);
    auto view = views_[description].lock();
    if (!view) {
      view = open();
      views_[description] = view;
    }
    return view;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const HeapView>>
      views_; // guarded by mutex_
};

OpenViews& open_views() {
  static OpenViews views;
  return views;
}

} // namespace

HeapView::HeapView(SharedMemory memory, std::uint64_t base)
    : memory_(std::move(memory)), base_(base) {}

std::shared_ptr<const HeapView> HeapView::open(const std::string& description) {
  return open_views().find(description, [&] {
    const auto words = split(description, ' ');
    ARGOSY_ASSERT(words.size() == 5, description);
    const auto base = static_cast<std::uint64_t>(*parse_int(words[3]));
    const auto bytes = static_cast<std::size_t>(*parse_int(words[4]));
    auto memory =
        SharedMemory::open(str(words[0], " ", words[1], " ", words[2]), bytes);
    if (!memory.same_process()) { // a core dump of the owner contains it
      ::madvise(memory.get(), bytes, MADV_DONTDUMP);
    }
    return std::shared_ptr<const HeapView>(
        new HeapView(std::move(memory), base));
  });
}

} // namespace argosy::heap
