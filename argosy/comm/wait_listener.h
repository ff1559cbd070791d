#pragma once

namespace argosy::comm {

// Is told, while it lives, when the thread that made it waits for an operation
// for the first time: before, when something else can be done meanwhile, and
// afterwards. With one of these, every operation of the thread is carried out
// by the group's own thread. The innermost alone is told.
class WaitListener {
 public:
  WaitListener();
  virtual ~WaitListener();
  WaitListener(const WaitListener&) = delete;
  WaitListener& operator=(const WaitListener&) = delete;

  virtual void before_wait() = 0;
  virtual void after_wait() = 0; // also when the wait throws

  // That of the calling thread, or null.
  static WaitListener* current();

 private:
  WaitListener* const outer_;
};

} // namespace argosy::comm
