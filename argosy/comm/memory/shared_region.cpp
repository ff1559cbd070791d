#include "argosy/comm/memory/shared_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <new>
#include <random>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"

namespace argosy::comm::memory {

namespace {

std::shared_ptr<Region> map_region(int fd, std::size_t bytes) {
  void* memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    throw SystemError(with_errno("[comm.shm] mmap"));
  }
  return {static_cast<Region*>(memory), [bytes](Region* region) {
            ::munmap(region, bytes);
          }};
}

// The mappings of this process whose way in is open, by description: how its
// threads find each other's.
class OwnMappings {
 public:
  void add(const std::string& name, const std::shared_ptr<Region>& region) {
    const std::lock_guard lock(mutex_);
    regions_[name] = region;
  }
  void remove(const std::string& name) {
    const std::lock_guard lock(mutex_);
    regions_.erase(name);
  }
  std::shared_ptr<Region> find(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto found = regions_.find(name);
    return found == regions_.end() ? nullptr : found->second.lock();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<Region>> regions_; // guarded by mutex_
};

OwnMappings& own_mappings() {
  static OwnMappings mappings;
  return mappings;
}

std::string random_text() {
  std::random_device device;
  return str(std::hex, device(), device());
}

// What /proc shows of a region, by which no other is taken for it: in another
// PID namespace the owner's number may be another process's.
std::string region_name(const std::string& process) {
  return str("argosy-region-", split(process, '/')[1]);
}

} // namespace

const std::string& own_process() {
  // The boot id tells hosts apart, the random text processes.
  static const std::string identity =
      str(trim(read_file("/proc/sys/kernel/random/boot_id").value_or("?")),
          "/",
          random_text());
  return identity;
}

SharedRegion SharedRegion::create(int num_ranks) {
  const std::size_t bytes = Region::bytes(num_ranks);
  SharedRegion made;
  made.fd_ = ::memfd_create(region_name(own_process()).c_str(), MFD_CLOEXEC);
  if (made.fd_ < 0 || ::ftruncate(made.fd_, static_cast<off_t>(bytes)) != 0) {
    throw SystemError(with_errno("[comm.shm] memfd"));
  }
  made.region_ = map_region(made.fd_, bytes);
  auto* control = new (&made.region_->control) Control();
  control->self = reinterpret_cast<std::uint64_t>(control);
  made.owner_ = ::getpid();
  made.process_ = own_process();
  own_mappings().add(made.description(), made.region_);
  return made;
}

std::string SharedRegion::description() const {
  return str(owner_, " ", fd_, " ", process_);
}

SharedRegion SharedRegion::open(const std::string& description, int num_ranks) {
  const auto words = split(description, ' ');
  ARGOSY_ASSERT(words.size() == 3, description);
  SharedRegion opened;
  opened.owner_ = static_cast<pid_t>(parse_int(words[0]).value_or(-1));
  opened.process_ = words[2];
  if (opened.same_process()) {
    opened.region_ = own_mappings().find(description);
    ARGOSY_ASSERT(opened.region_ != nullptr, description);
    return opened;
  }
  const std::string boot = split(words[2], '/')[0];
  if (boot != split(own_process(), '/')[0]) {
    throw SystemError("[comm.shm] the other rank is on another host");
  }
  const std::string path = str("/proc/", words[0], "/fd/", words[1]);
  std::error_code ignored;
  const auto shown = std::filesystem::read_symlink(path, ignored).string();
  if (shown.find(region_name(words[2])) == std::string::npos) {
    throw SystemError(str("[comm.shm] ", path, " is not the other rank's"));
  }
  opened.fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened.fd_ < 0) {
    throw SystemError(with_errno(str("[comm.shm] ", path)));
  }
  opened.region_ = map_region(opened.fd_, Region::bytes(num_ranks));
  opened.close_way_in();
  return opened;
}

SharedRegion::SharedRegion(SharedRegion&& other) noexcept
    : region_(std::move(other.region_)),
      fd_(std::exchange(other.fd_, -1)),
      owner_(other.owner_),
      process_(std::move(other.process_)) {}

SharedRegion::~SharedRegion() {
  close_way_in();
}

void SharedRegion::close_way_in() {
  if (fd_ >= 0) {
    own_mappings().remove(description());
    ::close(std::exchange(fd_, -1));
  }
}

bool SharedRegion::same_process() const {
  return process_ == own_process();
}

} // namespace argosy::comm::memory
