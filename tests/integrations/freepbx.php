<?php
/**
 * Stands in for CID Superfecta: runs the source in the file $argv[1] with the parameters in $argv[2] and what Asterisk says
 * about the call in $argv[3] (both JSON) for each line of standard input, a number, and prints the result as a line of JSON.
 */
error_reporting(E_ALL);
set_error_handler(function ($level, $message) { throw new ErrorException($message); });

class superfecta_base {
	protected $spam = false;
	protected $spam_count = 0;
	protected $trunk_info = array();
	public $printed = array();

	function getRunParams($settings) {
		$final = array();
		foreach ($this->source_param as $key => $values) {
			$final[$key] = isset($settings[$key]) ? $settings[$key] : (isset($values['default']) ? $values['default'] : null);
		}
		return $final;
	}
	function setSpam($value) { $this->spam = $value; }
	function isSpam() { return $this->spam; }
	function set_SpamCount($value) { $this->spam_count = $value; }
	function get_SpamCount() { return $this->spam_count; }
	function set_TrunkInfo($value) { $this->trunk_info = $value; }
	function get_TrunkInfo() { return $this->trunk_info; }
	function DebugPrint($message) { $this->printed[] = $message; }
}

include $argv[1];
while (($number = fgets(STDIN)) !== false) {
	$number = rtrim($number, "\n");
	$source = new Caller_Identification;
	$source->set_TrunkInfo(array('callerid' => $number) + json_decode($argv[3], true));
	$name = $source->get_caller_id($number, $source->getRunParams(json_decode($argv[2], true)));
	$spam = array($source->isSpam(), $source->get_SpamCount());
	echo json_encode(array('name' => $name, 'spam' => $spam, 'printed' => $source->printed)), "\n";
}
