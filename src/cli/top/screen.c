/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/screen.h"

#include <curses.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>

#undef columns /* term.h has a macro of this name */

#include "base/now.h"
#include "cli/say/say.h"
#include "cli/top/dialogue.h"
#include "text/text.h"

static volatile sig_atomic_t ended;

/* The terminal's state before, to restore it where ncurses cannot be called any more. */
static struct {
	struct termios modes;
	char words[128];
	size_t len;
} before;

static void screen_note_signal(int sig)
{
	ended = sig;
}

/* A bug: the terminal is put back, and then it ends as it would have. */
static void screen_die(int sig)
{
	if (write(STDOUT_FILENO, before.words, before.len) < 0)
		return;
	tcsetattr(STDIN_FILENO, TCSANOW, &before.modes);
	signal(sig, SIG_DFL);
	raise(sig);
}

static bool screen_can(const char *capability)
{
	const char *s = tigetstr(capability);

	return s && s != (const char *)-1;
}

bool screen_usable(void)
{
	int err;

	return setupterm(NULL, STDOUT_FILENO, &err) == OK && screen_can("cup") &&
	       screen_can("clear");
}

/* --- Drawing --------------------------------------------------------------------------------- */

static int screen_colour(int pair)
{
	return has_colors() ? (int)COLOR_PAIR(pair) : 0;
}

static attr_t screen_style(enum frame_style style)
{
	static const attr_t styles[] = {A_NORMAL, A_BOLD, A_DIM, A_BOLD};

	return styles[style] | (style == FRAME_ALERT ? (attr_t)screen_colour(1 + FRAME_FULL) : 0);
}

static void screen_draw_line(int y, const struct frame_line *line, int width)
{
	int bar = line->bar_width;

	attrset(screen_style(line->style));
	mvaddstr(y, 0, line->text);
	attrset(A_NORMAL);
	if (line->bar_at + bar > width)
		bar = width - line->bar_at;
	if (bar > 0)
		mvchgat(y, line->bar_at, bar, A_NORMAL, has_colors() ? (short)(1 + line->level) : 0,
			NULL);
}

/* As many of the keys' words as there is room for. */
static void screen_write_keys(char *ret, size_t size, int width)
{
	size_t len = 0;

	*ret = 0;
	for (const struct frame_key *k = frame_keys; k->key; k++) {
		char one[64];
		int n = k->word ? snprintf(one, sizeof(one), " %s %s ", k->key, k->word) : 0;

		if (!n || len + (size_t)n > (size_t)width || len + (size_t)n >= size)
			continue;
		memcpy(ret + len, one, (size_t)n + 1);
		len += (size_t)n;
	}
}

static void screen_draw_bottom(const struct dialogue *d, int y, int width)
{
	bool types = d->at != DIALOGUE_KEYS && d->at != DIALOGUE_SIGNAL;
	char text[512];
	int len, cut;

	if (d->at != DIALOGUE_KEYS)
		snprintf(text, sizeof(text), "%s%s", d->question, d->prompt.text);
	else if (*d->message)
		snprintf(text, sizeof(text), "%s", d->message);
	else
		screen_write_keys(text, sizeof(text), width);
	if (!d->state->utf8)
		text_make_ascii(text);
	/* The end of the text is where a person types, and must be visible. */
	len = (int)strlen(text);
	cut = types && len >= width ? len - width + 1 : 0;
	text_clip(text + cut, (size_t)width);
	attrset(A_REVERSE);
	mvhline(y, 0, ' ', width);
	mvaddstr(y, 0, text + cut);
	attrset(A_NORMAL);
	curs_set(types);
	if (types)
		move(y, len - cut);
}

static void screen_draw(const struct frame *f, const struct dialogue *d)
{
	int height, width;

	getmaxyx(stdscr, height, width);
	erase();
	for (int i = 0; i < f->n && i < height - 1; i++)
		screen_draw_line(i, &f->line[i], width);
	screen_draw_bottom(d, height - 1, width);
	refresh();
}

/* --- Keys ------------------------------------------------------------------------------------ */

static int screen_translate(int key)
{
	switch (key) {
	case KEY_UP:
		return DIALOGUE_UP;
	case KEY_DOWN:
		return DIALOGUE_DOWN;
	case KEY_PPAGE:
		return DIALOGUE_PAGE_UP;
	case KEY_NPAGE:
		return DIALOGUE_PAGE_DOWN;
	case KEY_HOME:
		return DIALOGUE_HOME;
	case KEY_END:
		return DIALOGUE_END;
	case KEY_ENTER:
		return '\n';
	case KEY_BACKSPACE:
		return PROMPT_BACKSPACE;
	}
	return key < 256 ? key : 0;
}

/* The wheel has no buttons of its own: it presses the fourth and the fifth. */
static void screen_take_mouse(struct dialogue *d, const struct view *view,
			      const struct frame *frame)
{
	MEVENT event;

	if (getmouse(&event) != OK)
		return;
	if (event.bstate & BUTTON1_PRESSED)
		dialogue_click(d, frame, event.y, event.x);
	else if (event.bstate & BUTTON4_PRESSED)
		dialogue_key(d, view, DIALOGUE_UP);
#ifdef BUTTON5_PRESSED
	else if (event.bstate & BUTTON5_PRESSED)
		dialogue_key(d, view, DIALOGUE_DOWN);
#endif
}

static void screen_ask_mouse(bool ask)
{
	mmask_t mask = BUTTON1_PRESSED | BUTTON4_PRESSED;

#ifdef BUTTON5_PRESSED
	mask |= BUTTON5_PRESSED;
#endif
	mousemask(ask ? mask : 0, NULL);
}

/* false: one of them was the key that ends. */
static bool screen_take_keys(struct dialogue *d, const struct view *view, const struct frame *frame)
{
	bool no_mouse = d->state->no_mouse;
	int key;

	while ((key = getch()) != ERR) {
		if (key == KEY_RESIZE)
			continue;
		if (key == ('L' & 31)) {
			clearok(stdscr, TRUE);
			continue;
		}
		if (key == KEY_MOUSE) {
			screen_take_mouse(d, view, frame);
			continue;
		}
		d->page = LINES > 8 ? LINES - 8 : 1;
		if (!dialogue_key(d, view, screen_translate(key)))
			return false;
	}
	if (d->state->no_mouse != no_mouse)
		screen_ask_mouse(no_mouse);
	return true;
}

/* --- The terminal ---------------------------------------------------------------------------- */

#define MOUSE_OFF "\033[?1006l\033[?1000l"

static void screen_keep_terminal(void)
{
	static const char *const capabilities[] = {"sgr0", "rmkx", "cnorm", "rmcup"};

	tcgetattr(STDIN_FILENO, &before.modes);
	for (size_t i = 0; i < sizeof(capabilities) / sizeof(capabilities[0]); i++) {
		const char *s = screen_can(capabilities[i]) ? tigetstr(capabilities[i]) : "";
		size_t len = strcspn(s, "$"); /* a terminal that wants pauses is long gone */

		if (before.len + len > sizeof(before.words))
			break;
		memcpy(before.words + before.len, s, len);
		before.len += len;
	}
	/* As ncurses does it where the terminal has a mouse; others ignore it. */
	if (screen_can("kmous") && before.len + strlen(MOUSE_OFF) <= sizeof(before.words)) {
		memcpy(before.words + before.len, MOUSE_OFF, strlen(MOUSE_OFF));
		before.len += strlen(MOUSE_OFF);
	}
}

/*
 * Signals that end the program are taken only while it waits for keys, so that none is lost between
 * a look at `ended` and the wait. SIGWINCH and the one of control-Z are ncurses's.
 */
static void screen_take_signals(sigset_t *ret_waiting)
{
	static const int ends[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
				   SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2};
	static const int bugs[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
	struct sigaction end = {.sa_handler = screen_note_signal};
	struct sigaction die = {.sa_handler = screen_die, .sa_flags = (int)SA_RESETHAND};
	sigset_t blocked;

	sigemptyset(&blocked);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		sigaction(ends[i], &end, NULL);
		sigaddset(&blocked, ends[i]);
	}
	for (size_t i = 0; i < sizeof(bugs) / sizeof(bugs[0]); i++)
		sigaction(bugs[i], &die, NULL);
	sigprocmask(SIG_BLOCK, &blocked, ret_waiting);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		sigdelset(ret_waiting, ends[i]);
}

static void screen_start(bool mouse)
{
	initscr();
	/* A press is told at once, and not when it is clear that it is no double click. */
	mouseinterval(0);
	screen_ask_mouse(mouse);
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	curs_set(0);
	set_escdelay(50);
	if (has_colors()) {
		start_color();
		use_default_colors();
		init_pair(1 + FRAME_CALM, COLOR_GREEN, -1);
		init_pair(1 + FRAME_HIGH, COLOR_YELLOW, -1);
		init_pair(1 + FRAME_FULL, COLOR_RED, -1);
	}
}

/* Until a key, a signal or the next look; false: the terminal is gone. */
static bool screen_wait(uint64_t until_ns, const sigset_t *waiting)
{
	struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
	uint64_t now = now_monotonic_ns(), left = until_ns > now ? until_ns - now : 0;
	struct timespec timeout = {.tv_sec = (time_t)(left / NS_PER_S),
				   .tv_nsec = (long)(left % NS_PER_S)};

	return ppoll(&fd, 1, &timeout, waiting) <= 0 ||
	       !(fd.revents & (POLLHUP | POLLERR | POLLNVAL));
}

int screen_run(struct frame_state *state, struct view_reader *reader, const char *runtime,
	       struct view *view, const char *message)
{
	struct dialogue dialogue = {.state = state, .stale = state->clocks};
	uint64_t read_ns = now_monotonic_ns();
	struct frame frame = {.n = 0};
	sigset_t waiting;
	int r = 0;

	snprintf(dialogue.message, sizeof(dialogue.message), "%s", message);
	screen_keep_terminal();
	screen_take_signals(&waiting);
	screen_start(!state->no_mouse);
	while (!ended) {
		if (dialogue.stale ||
		    now_monotonic_ns() >= read_ns + state->interval_us * NS_PER_US) {
			dialogue.stale = false;
			read_ns = now_monotonic_ns();
			view_ask_traffic(reader, state->clocks);
			view_ask_programs(reader, state->processes ? state->choice.name : "");
			r = view_read(reader, runtime, view);
		}
		if (!r)
			r = frame_build(view, state, COLS, LINES, &frame);
		if (r < 0)
			break;
		screen_draw(&frame, &dialogue);
		if (!screen_wait(read_ns + state->interval_us * NS_PER_US, &waiting) ||
		    !screen_take_keys(&dialogue, view, &frame))
			break;
	}
	endwin();
	frame_free(&frame);
	dialogue_close(&dialogue);
	if (ended) {
		signal(ended, SIG_DFL);
		raise(ended);
		sigprocmask(SIG_SETMASK, &waiting, NULL);
	}
	return r < 0 ? say_error("cannot read the runtime directory %s: %s", runtime, say_errno(r))
		     : 0;
}
